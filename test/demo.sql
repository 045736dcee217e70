-- The session of "make demo".  A \gset of "ok" and :must_be_true make the
-- script end with an error as soon as something is not as the demo says.
\set ON_ERROR_STOP on
\pset footer off
\set must_be_true 'SELECT pg_temp.check_that(:''ok''::bool) \\gset'
SET client_min_messages = warning;
CREATE FUNCTION pg_temp.check_that(ok bool) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF ok IS NOT TRUE THEN
        RAISE EXCEPTION 'what was shown last is not as it should be';
    END IF;
END $$;
CREATE EXTENSION sift;
CREATE EXTENSION sift_test;
CREATE EXTENSION unify;

\echo '1. Three sessions.  Two answer queries all the time; this one runs away, four times, under'
\echo '   SET sift.memory_limit = ''32MB'';  SET work_mem = ''2GB'';'
SET sift.memory_limit = '32MB';
SET work_mem = '2GB';
SET jit = off;
SELECT count(*) AS answers_before FROM answers \gset
\set ON_ERROR_STOP off
\set VERBOSITY terse
\echo '   array_agg over 20 million rows:'
SELECT array_agg(i) FROM generate_series(1, 20000000) i;
\echo '   a hash aggregate:'
SELECT count(*) FROM (SELECT i, array_agg(i) FROM generate_series(1, 20000000) i GROUP BY i) s;
\echo '   a VALUES list of 41,000 rows:'
SELECT 'SELECT count(*) FROM (VALUES ' || string_agg(format('(%s, ''x%s'', %s.5)', i, i, i), ',') || ') v' FROM generate_series(1, 41000) i \gexec
\set VERBOSITY default
\echo '   repeat(''x'', 900000000):'
SELECT repeat('x', 900000000);
\set ON_ERROR_STOP on
SELECT :'LAST_ERROR_SQLSTATE' = '53200' AS ok \gset
:must_be_true
SELECT pg_sleep(0.5) \gset
SELECT count(*) - :answers_before AS answers, count(DISTINCT pid) AS sessions FROM answers \gset
\echo '    Meanwhile' :sessions 'sessions have answered' :answers 'queries.  The refusals on record:'
SELECT context_name, requested_bytes, charged_bytes, top_contexts[1:2] FROM sift_memory_refusals ORDER BY at;
SELECT count(*) = 4 AND bool_and(pid = pg_backend_pid()) AND :sessions = 2 AND :answers > 2 AS ok FROM sift_memory_refusals \gset
:must_be_true

\echo '2. Every process of the server, from shared memory and /proc:'
SELECT pid, backend_type, limit_bytes, charged_bytes, peak_bytes, refusals, rss_anon_bytes, accounted_share
FROM sift_memory_usage_backends ORDER BY peak_bytes DESC NULLS LAST, pid;
SELECT count(*) > 6 AND bool_and(rss_bytes > 0) AND max(peak_bytes) < 36 * 1024 * 1024 AS ok FROM sift_memory_usage_backends \gset
:must_be_true
RESET sift.memory_limit;
RESET work_mem;

\echo '3. Rows kept in row contexts: pgbench accounts and the server''s own catalogs.'
SELECT sift_test_keep('accounts', 'SELECT * FROM pgbench_accounts') AS accounts,
       sift_test_keep('columns', 'SELECT * FROM pg_attribute') AS columns \gset
\echo '   ' :accounts accounts, :columns 'columns of system tables.  Memory of this session by kind:'
SELECT kind, bytes, peak_bytes, blocks FROM sift_memory_usage WHERE bytes IS NOT NULL;
SELECT :accounts = 100000 AND used_bytes > total_bytes * 0.9 AS ok FROM sift_memory_usage_contexts WHERE ident = 'accounts' \gset
:must_be_true

\echo '   A load that passes the limit (24 MB) ends in an error; the session goes on.'
SET sift.memory_limit = '24MB';
\set ON_ERROR_STOP off
SELECT sift_test_keep('again', 'SELECT * FROM pgbench_accounts');
\set ON_ERROR_STOP on
SELECT :'LAST_ERROR_SQLSTATE' = '53200' AS ok \gset
:must_be_true
SELECT count(*) = 100000 AS ok FROM sift_test_kept('accounts') AS k(aid int, bid int, abalance int, filler char(84)) \gset
:must_be_true

\echo '4. The rows are dropped, and idle blocks given back:'
SELECT sift_test_drop('accounts'), sift_test_drop('columns') \gset
SELECT sift_trim() AS trimmed \gset
SELECT sum(bytes) AS held FROM sift_memory_usage WHERE kind <> 'server' \gset
\echo '   ' :trimmed 'bytes were idle;' :held 'are left in blocks of Sift.'
SELECT :trimmed > 0 AND :held = 0 AS ok \gset
:must_be_true
\echo '5. An engine (test/unify) under a limit: rows written, moved to columnar files, dropped.'
SET sift.memory_limit = '64MB';
SELECT unify_register('events', 'sift') \gset
SELECT unify_load('events', 'SELECT aid::int8, bid::int8, 0.5::float8, filler::text, NULL::text, repeat(''x'', aid % 300) FROM pgbench_accounts WHERE aid <= 20000') AS loaded \gset
SELECT unify_write('events', 4000, 1000, 500, 1) AS written \gset
SELECT sum(unify_move('events', 5000, 'demo_files')) AS moved FROM generate_series(1, 5) \gset
SELECT count(*) AS read FROM unify_read('demo_files') AS r(k int8, a int8, x float8, n text, o text, b text) \gset
\echo '   ' :loaded rows loaded, :written after writing, :moved moved to files, :read 'read back from them.'
SELECT :written = 23500 AND :moved = :written AND :read = :written AS ok \gset
:must_be_true
SELECT unify_drop('events') \gset
SELECT sum(bytes) FILTER (WHERE kind NOT IN ('idle', 'server')) AS held, max(peak_bytes) AS peak FROM sift_memory_usage \gset
\echo '    After the drop' :held 'bytes are held; at most' :peak 'were.'
SELECT :held = 0 AND :peak <= 64 * 1024 * 1024 AS ok \gset
:must_be_true
\echo '6. A parallel query is one account (16 MB), the hash table that its processes share included:'
SET sift.memory_limit = '16MB';
SET work_mem = '64MB';
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET enable_mergejoin = off;
SET enable_nestloop = off;
\set ON_ERROR_STOP off
SELECT count(a.filler || b.filler) FROM pgbench_accounts a JOIN pgbench_accounts b USING (aid);
\set ON_ERROR_STOP on
SELECT :'LAST_ERROR_SQLSTATE' = '53200' AS ok \gset
:must_be_true
SELECT count(*) = 0 AS ok FROM sift_memory_usage_backends WHERE leader_pid = pg_backend_pid() \gset
:must_be_true
RESET sift.memory_limit;

\echo '7. What a statement held stays warm for the next one, and goes back when the session idles:'
SET work_mem = '1GB';
WITH m AS MATERIALIZED (SELECT filler FROM pgbench_accounts, generate_series(1, 8)) SELECT count(*) FROM m \gset
SELECT pg_backend_pid() AS pid \gset
SELECT rss_anon_bytes, free_heap_bytes FROM sift_memory_usage_backends WHERE pid = :pid \gset warm_
\! sleep 2
SELECT rss_anon_bytes, free_heap_bytes FROM sift_memory_usage_backends WHERE pid = :pid \gset idle_
\echo '    Private memory was' :warm_rss_anon_bytes 'bytes after it,' :warm_free_heap_bytes 'of them free; two seconds later it is' :idle_rss_anon_bytes.
SELECT :warm_free_heap_bytes > 50000000 AND :idle_rss_anon_bytes < 16 * 1024 * 1024 AS ok \gset
:must_be_true
SELECT limit_bytes, charged_bytes, peak_bytes, backends FROM sift_memory_usage_total;
\echo '8. Which statements took the most, above what the session held when they began:'
CREATE EXTENSION pg_stat_statements;
SELECT calls, max_peak_bytes, refusals, rpad(left(regexp_replace(query, '\s+', ' ', 'g'), 60), 60) AS query
FROM sift_memory_usage_statements
JOIN (SELECT userid, dbid, queryid, toplevel, query FROM pg_stat_statements) AS p USING (userid, dbid, queryid, toplevel)
ORDER BY max_peak_bytes DESC LIMIT 5;
SELECT count(*) FILTER (WHERE refusals > 0) AS refused FROM sift_memory_usage_statements \gset
\echo '    and' :refused 'that were refused, which pg_stat_statements has no text of.'
SELECT max(max_peak_bytes) > 100000000 AND :refused >= 4 AS ok FROM sift_memory_usage_statements \gset
:must_be_true
\echo 'All of this was checked while it was shown.'
