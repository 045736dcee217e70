/* sift--1.0--1.1.sql */

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION sift UPDATE TO '1.1'" to load this file. \quit

CREATE FUNCTION sift_machine_memory(
    OUT bytes pg_catalog.int8,
    OUT source pg_catalog.text)
RETURNS pg_catalog.record
AS 'MODULE_PATHNAME', 'sift_machine_memory_1_1'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION sift_machine_memory() IS
    'memory that the machine or the control group gives this server, and the file that says so';

-- The rule: what the machine has, less what the accounts do not know of, is
-- for the sessions together; half of it for one that asks for it, an eighth
-- for one that does not.
CREATE FUNCTION sift_recommended_limits(
    OUT name pg_catalog.text,
    OUT value pg_catalog.text,
    OUT how pg_catalog.text)
RETURNS SETOF pg_catalog.record
LANGUAGE SQL VOLATILE PARALLEL RESTRICTED
BEGIN ATOMIC
WITH settings AS (
    SELECT pg_catalog.pg_size_bytes(pg_catalog.current_setting('shared_memory_size')) AS shared,
           pg_catalog.current_setting('max_connections')::pg_catalog.int8
           + pg_catalog.current_setting('autovacuum_max_workers')::pg_catalog.int8
           + pg_catalog.current_setting('max_worker_processes')::pg_catalog.int8
           + pg_catalog.current_setting('max_wal_senders')::pg_catalog.int8 AS processes,
           COALESCE(pg_catalog.current_setting('huge_pages_status', true),
                    pg_catalog.current_setting('huge_pages')) = 'on'::pg_catalog.text AS huge_pages,
           pg_catalog.pg_size_bytes(pg_catalog.current_setting('maintenance_work_mem')) AS maintenance
), backends AS (
    SELECT pg_catalog.count(*) AS number,
           pg_catalog.avg(COALESCE(outside_bytes, rss_anon_bytes, 0))::pg_catalog.int8 AS outside,
           COALESCE(pg_catalog.sum(charged_bytes), 0)::pg_catalog.int8 AS charged,
           COALESCE(pg_catalog.max(peak_bytes), 0) AS peak
    FROM sift_memory_usage_backends()
), taken AS (
    SELECT m.bytes AS memory, m.source, s.shared, s.processes, s.huge_pages, s.maintenance,
           b.number, b.outside, b.charged, b.peak,
           CASE WHEN s.huge_pages THEN 0 ELSE s.processes * s.shared / 512 END AS page_tables,
           s.processes * b.outside AS all_outside,
           m.bytes / 8 AS reserve
    FROM sift_machine_memory() m, settings s, backends b
), left_over AS (
    SELECT t.*, t.memory - t.shared - t.page_tables - t.all_outside - t.reserve AS total
    FROM taken t
), limits AS (
    SELECT l.*, l.total >= 67108864 AS enough,
           LEAST(l.total / 2, GREATEST(l.total / 8, l.maintenance * 2, l.peak * 5 / 4, 33554432)) AS session
    FROM left_over l
)
SELECT r.name, CASE WHEN r.bytes IS NOT NULL THEN pg_catalog.concat(r.bytes / 1048576, 'MB') END, r.how
FROM limits l,
     LATERAL (VALUES
        (1, 'memory', l.memory, 
            CASE WHEN l.memory IS NULL THEN 'not known' ELSE pg_catalog.concat('what there is, by ', l.source) END),
        (2, 'shared memory', l.shared, pg_catalog.concat(
            'shared_buffers of ', pg_catalog.current_setting('shared_buffers'), ', and what else the server shares')),
        (3, 'page tables', l.page_tables,
            CASE WHEN l.huge_pages THEN 'none to speak of, as huge_pages are in use'
                 ELSE pg_catalog.concat('8 bytes for each 4 kB of shared memory, in each of ', l.processes,
                      ' processes (max_connections, autovacuum_max_workers, max_worker_processes, max_wal_senders)') END),
        (4, 'outside of the accounts', l.all_outside, pg_catalog.concat(
            l.outside / 1024, ' kB, the mean of ', l.number, ' processes now, in each of ', l.processes)),
        (5, 'reserve', l.reserve, 'an eighth of the memory, for the system, the files that it caches and other programs'),
        (6, 'sift.total_memory_limit', CASE WHEN l.enough THEN l.total END,
            CASE WHEN l.memory IS NULL THEN 'not known, as the memory is not'
                 WHEN l.enough THEN pg_catalog.concat('the memory less all of the above; held now are ',
                      l.charged / 1048576, 'MB')
                 ELSE 'there is too little memory: lower max_connections or shared_buffers, or use huge_pages' END),
        (7, 'sift.max_memory_limit', CASE WHEN l.enough THEN l.total / 2 END,
            'half of the total: what a session may give itself'),
        (8, 'sift.memory_limit', CASE WHEN l.enough THEN l.session END, pg_catalog.concat(
            'an eighth of the total, at least 32 MB, twice maintenance_work_mem (', l.maintenance / 1048576,
            'MB) and 1.25 of the most that a session of now has held (', l.peak / 1048576,
            'MB), at most sift.max_memory_limit'))
     ) AS r(step, name, bytes, how)
ORDER BY r.step;
END;

COMMENT ON FUNCTION sift_recommended_limits() IS
    'limits for this server, and how they come about';

REVOKE ALL ON FUNCTION sift_machine_memory() FROM PUBLIC;
REVOKE ALL ON FUNCTION sift_recommended_limits() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION sift_machine_memory() TO pg_monitor;
GRANT EXECUTE ON FUNCTION sift_recommended_limits() TO pg_monitor;
