/* unify--1.0.sql */

\echo Use "CREATE EXTENSION unify" to load this file. \quit

-- The tables of unify are the memory of one session.  They are an engine's
-- memory and not tables of PostgreSQL: ROLLBACK undoes nothing.  A call that
-- fails leaves the table, and the files, as they were before it.

-- allocator: 'sift', 'store', 'malloc' or 'aset'
CREATE FUNCTION unify_register(name text, allocator text) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Add the rows of a query.  The first load fixes the type of the rows.
CREATE FUNCTION unify_load(name text, query text) RETURNS int8
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Add, replace and remove rows (key int8, amount int8, ratio float8,
-- name text, note text, body text) with values that the seed determines.
CREATE FUNCTION unify_write(name text, inserts int4, updates int4, deletes int4, seed int8) RETURNS int8
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Move the first rows to files, one a column, in a directory of their own.
CREATE FUNCTION unify_move(name text, rows int8, directory text) RETURNS int8
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- The rows back from the files.
CREATE FUNCTION unify_read(directory text) RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION unify_drop(name text) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- A row a table.  bytes: what the allocator holds for it; allocations: how
-- many it made for the rows that are there.
CREATE FUNCTION unify_stats(OUT name text, OUT allocator text, OUT rows int8,
    OUT bytes int8, OUT allocations int8) RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- These read and write files of the server.
REVOKE ALL ON FUNCTION unify_move(text, int8, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION unify_read(text) FROM PUBLIC;
