/* sift--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION sift" to load this file. \quit

-- Types and built-in functions are qualified; what this script makes itself
-- is found in the schema that CREATE EXTENSION puts first.

CREATE FUNCTION sift_memory_usage(
    OUT kind pg_catalog.text,
    OUT bytes pg_catalog.int8,
    OUT peak_bytes pg_catalog.int8,
    OUT blocks pg_catalog.int8,
    OUT blocks_taken pg_catalog.int8,
    OUT blocks_returned pg_catalog.int8,
    OUT refusals pg_catalog.int8)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME', 'sift_memory_usage_1_0'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION sift_memory_usage() IS 'memory of this backend, by kind';

CREATE VIEW sift_memory_usage AS
    SELECT kind, bytes, peak_bytes, blocks, blocks_taken, blocks_returned, refusals
    FROM sift_memory_usage();

COMMENT ON VIEW sift_memory_usage IS 'memory of this backend, by kind';

CREATE FUNCTION sift_memory_usage_contexts(
    OUT name pg_catalog.text,
    OUT ident pg_catalog.text,
    OUT parent pg_catalog.text,
    OUT kind pg_catalog.text,
    OUT level pg_catalog.int4,
    OUT blocks pg_catalog.int8,
    OUT total_bytes pg_catalog.int8,
    OUT used_bytes pg_catalog.int8,
    OUT free_bytes pg_catalog.int8,
    OUT dead_bytes pg_catalog.int8,
    OUT chunks pg_catalog.int8,
    OUT rows pg_catalog.int8,
    OUT slot_bytes pg_catalog.int8)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME', 'sift_memory_usage_contexts_1_0'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION sift_memory_usage_contexts() IS 'memory of this backend, by Sift context';

CREATE VIEW sift_memory_usage_contexts AS
    SELECT name, ident, parent, kind, level, blocks, total_bytes, used_bytes,
           free_bytes, dead_bytes, chunks, rows, slot_bytes
    FROM sift_memory_usage_contexts();

COMMENT ON VIEW sift_memory_usage_contexts IS 'memory of this backend, by Sift context';

CREATE FUNCTION sift_memory_usage_backends(
    OUT pid pg_catalog.int4,
    OUT leader_pid pg_catalog.int4,
    OUT backend_type pg_catalog.text,
    OUT datname pg_catalog.text,
    OUT usename pg_catalog.text,
    OUT limit_bytes pg_catalog.int8,
    OUT charged_bytes pg_catalog.int8,
    OUT row_bytes pg_catalog.int8,
    OUT batch_bytes pg_catalog.int8,
    OUT large_bytes pg_catalog.int8,
    OUT idle_bytes pg_catalog.int8,
    OUT server_bytes pg_catalog.int8,
    OUT shared_bytes pg_catalog.int8,
    OUT peak_bytes pg_catalog.int8,
    OUT refusals pg_catalog.int8,
    OUT waived_bytes pg_catalog.int8,
    OUT rss_bytes pg_catalog.int8,
    OUT rss_anon_bytes pg_catalog.int8,
    OUT peak_rss_bytes pg_catalog.int8,
    OUT free_heap_bytes pg_catalog.int8,
    OUT outside_bytes pg_catalog.int8,
    OUT accounted_share pg_catalog.numeric)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME', 'sift_memory_usage_backends_1_0'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION sift_memory_usage_backends() IS 'memory of every process of the server';

CREATE VIEW sift_memory_usage_backends AS
    SELECT pid, leader_pid, backend_type, datname, usename, limit_bytes,
           charged_bytes, row_bytes, batch_bytes, large_bytes, idle_bytes,
           server_bytes, shared_bytes, peak_bytes, refusals, waived_bytes,
           rss_bytes, rss_anon_bytes, peak_rss_bytes, free_heap_bytes,
           outside_bytes, accounted_share
    FROM sift_memory_usage_backends();

COMMENT ON VIEW sift_memory_usage_backends IS 'memory of every process of the server';

CREATE FUNCTION sift_memory_usage_total(
    OUT limit_bytes pg_catalog.int8,
    OUT charged_bytes pg_catalog.int8,
    OUT peak_bytes pg_catalog.int8,
    OUT backends pg_catalog.int8,
    OUT refusals pg_catalog.int8)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME', 'sift_memory_usage_total_1_0'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION sift_memory_usage_total() IS 'memory of all backends together';

CREATE VIEW sift_memory_usage_total AS
    SELECT limit_bytes, charged_bytes, peak_bytes, backends, refusals
    FROM sift_memory_usage_total();

COMMENT ON VIEW sift_memory_usage_total IS 'memory of all backends together';

CREATE FUNCTION sift_memory_refusals(
    OUT at pg_catalog.timestamptz,
    OUT pid pg_catalog.int4,
    OUT usename pg_catalog.text,
    OUT datname pg_catalog.text,
    OUT queryid pg_catalog.int8,
    OUT context_name pg_catalog.text,
    OUT kind pg_catalog.text,
    OUT requested_bytes pg_catalog.int8,
    OUT charged_bytes pg_catalog.int8,
    OUT limit_bytes pg_catalog.int8,
    OUT top_contexts pg_catalog.text[])
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME', 'sift_memory_refusals_1_0'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION sift_memory_refusals() IS 'the last refusals of the whole server';

CREATE VIEW sift_memory_refusals AS
    SELECT at, pid, usename, datname, queryid, context_name, kind,
           requested_bytes, charged_bytes, limit_bytes, top_contexts
    FROM sift_memory_refusals();

COMMENT ON VIEW sift_memory_refusals IS 'the last refusals of the whole server';

CREATE FUNCTION sift_memory_usage_statements(
    OUT userid pg_catalog.oid,
    OUT dbid pg_catalog.oid,
    OUT queryid pg_catalog.int8,
    OUT toplevel pg_catalog.bool,
    OUT calls pg_catalog.int8,
    OUT max_peak_bytes pg_catalog.int8,
    OUT mean_peak_bytes pg_catalog.int8,
    OUT last_peak_bytes pg_catalog.int8,
    OUT refusals pg_catalog.int8,
    OUT waived_bytes pg_catalog.int8)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME', 'sift_memory_usage_statements_1_0'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION sift_memory_usage_statements() IS 'what statements have needed, of the whole server';

CREATE VIEW sift_memory_usage_statements AS
    SELECT userid, dbid, queryid, toplevel, calls, max_peak_bytes, mean_peak_bytes,
           last_peak_bytes, refusals, waived_bytes
    FROM sift_memory_usage_statements();

COMMENT ON VIEW sift_memory_usage_statements IS 'what statements have needed, of the whole server';

CREATE FUNCTION sift_last_statement(
    OUT queryid pg_catalog.int8,
    OUT peak_bytes pg_catalog.int8,
    OUT refusals pg_catalog.int8,
    OUT waived_bytes pg_catalog.int8)
RETURNS pg_catalog.record
AS 'MODULE_PATHNAME', 'sift_last_statement_1_0'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION sift_last_statement() IS 'what this session''s statement before has needed';

CREATE FUNCTION sift_reset_statements()
RETURNS pg_catalog.void
AS 'MODULE_PATHNAME', 'sift_reset_statements_1_0'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION sift_reset_statements() IS 'forget what statements have needed';

REVOKE ALL ON FUNCTION sift_reset_statements() FROM PUBLIC;

CREATE FUNCTION sift_compact()
RETURNS pg_catalog.int8
AS 'MODULE_PATHNAME', 'sift_compact_1_0'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION sift_compact() IS
    'move the rows of this backend''s row stores together; returns the bytes by which the stores got smaller';

CREATE FUNCTION sift_trim()
RETURNS pg_catalog.int8
AS 'MODULE_PATHNAME', 'sift_trim_1_0'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION sift_trim() IS
    'give back to the system what this backend keeps for reuse; returns the bytes';

CREATE FUNCTION sift_reset_peak()
RETURNS pg_catalog.void
AS 'MODULE_PATHNAME', 'sift_reset_peak_1_0'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION sift_reset_peak() IS
    'let the peaks of this backend begin again at what it holds now';

GRANT SELECT ON sift_memory_usage TO PUBLIC;
GRANT SELECT ON sift_memory_usage_contexts TO PUBLIC;
GRANT SELECT ON sift_memory_usage_backends TO PUBLIC;
GRANT SELECT ON sift_memory_usage_total TO PUBLIC;
GRANT SELECT ON sift_memory_refusals TO PUBLIC;
GRANT SELECT ON sift_memory_usage_statements TO PUBLIC;
