/* sift_test--1.0.sql */

\echo Use "CREATE EXTENSION sift_test" to load this file. \quit

-- Each of these raises an error at the first thing that is not as expected.

CREATE FUNCTION sift_test_contexts() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION sift_test_misuse() RETURNS text
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION sift_test_random(seed int8, operations int4, live_bytes int8) RETURNS text
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION sift_test_store() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION sift_test_store_random(seed int8, operations int4, rows int4) RETURNS text
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Where nothing but Sift's own memory is limited.
CREATE FUNCTION sift_test_store_pressure() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Where the server's memory is limited as well.
CREATE FUNCTION sift_test_store_pins_pressure() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- How many charges were refused one after the other.
CREATE FUNCTION sift_test_store_refusals() RETURNS int4
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Put rows, remove all but one of "keep", compact, and look at what is charged then;
-- the most bytes that slots take a row in some rounds.
CREATE FUNCTION sift_test_store_shrinks(size int4, rows int4, keep int4, rounds int4) RETURNS int8
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Have a row store for the rest of the session of which nine in ten rows were removed.
CREATE FUNCTION sift_test_store_thin(count int4) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Have a row store that is mostly dead for the rest of the session; its bytes.
CREATE FUNCTION sift_test_store_fill() RETURNS int8
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION sift_test_refusals(no_oom bool) RETURNS int4
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION sift_test_refuse_charge(n int8) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION sift_test_limits() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Register a reclaimer that hangs, or raises, for the rest of the session.
CREATE FUNCTION sift_test_bad_reclaimer(hangs bool) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- For a session that has not used Sift yet: leaves it with few addresses.
CREATE FUNCTION sift_test_few_addresses(extra_bytes int8) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Allocate and free one chunk again and again.
CREATE FUNCTION sift_test_cross_zero(size int4, times int4) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Replace chunks of a row context in random order; what it holds in the end, as
-- a multiple of the live bytes.
CREATE FUNCTION sift_test_replace(min_size int4, max_size int4, count int4) RETURNS float8
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Create and drop contexts with rows in them; charged bytes and resident
-- bytes after each round.
CREATE FUNCTION sift_test_churn(contexts int4, rounds int4,
    OUT round int4, OUT charged_bytes int8, OUT rss_bytes int8) RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- What this backend has charged as kind "server", less what the C library says
-- is in use.
CREATE FUNCTION sift_test_heap_difference() RETURNS int8
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Keep the rows of any query in a row context of that name; the rows kept.
CREATE FUNCTION sift_test_keep(name text, query text) RETURNS int8
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- The kept rows, in the order of the query.
CREATE FUNCTION sift_test_kept(name text) RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Free every row but each n-th one (n = 0: every row).
CREATE FUNCTION sift_test_free(name text, n int4) RETURNS int8
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION sift_test_drop(name text) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- "bytes source" of the memory of a machine whose files are in a folder.
CREATE FUNCTION sift_test_machine_memory(root text) RETURNS text
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
