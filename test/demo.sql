-- The session of "make demo".  A \gset of "ok" and :must_be_true make the
-- script end with an error as soon as something is not as the demo says.
\set ON_ERROR_STOP on
\pset footer off
\set must_be_true 'SELECT pg_temp.must_be_true(:''ok''::bool) \\gset'
SET client_min_messages = warning;
CREATE FUNCTION pg_temp.must_be_true(ok bool) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF ok IS NOT TRUE THEN
        RAISE EXCEPTION 'what was shown last is not as it should be';
    END IF;
END $$;
CREATE EXTENSION sift;
CREATE EXTENSION sift_test;
CREATE EXTENSION unify;

\echo '1. Rows kept in row contexts: pgbench accounts and the server''s own catalogs.'
SELECT sift_test_keep('accounts', 'SELECT * FROM pgbench_accounts') AS accounts,
       sift_test_keep('columns', 'SELECT * FROM pg_attribute') AS columns \gset
\echo '   ' :accounts accounts, :columns 'columns of system tables.  Memory of this session by kind:'
SELECT kind, bytes, peak_bytes, blocks FROM sift_memory_usage WHERE bytes IS NOT NULL;
SELECT ident, kind, total_bytes, used_bytes, free_bytes, chunks FROM sift_memory_usage_contexts ORDER BY ident;
SELECT :accounts = 100000 AND used_bytes > total_bytes * 0.9 AS ok FROM sift_memory_usage_contexts WHERE ident = 'accounts' \gset
:must_be_true

\echo '2. A load that passes the limit ends in an error; the session goes on.'
\echo '   SET sift.memory_limit = ''24MB'';'
SET sift.memory_limit = '24MB';
\set ON_ERROR_STOP off
SELECT sift_test_keep('again', 'SELECT * FROM pgbench_accounts');
\set ON_ERROR_STOP on
SELECT :'LAST_ERROR_SQLSTATE' = '53200' AS ok \gset
:must_be_true
SELECT count(*) AS accounts_still_kept, sum(bid)
FROM sift_test_kept('accounts') AS k(aid int, bid int, abalance int, filler char(84));
SELECT sum(bytes) <= 24 * 1024 * 1024 AND sum(refusals) = 1 AS ok FROM sift_memory_usage \gset
:must_be_true

\echo '3. Every process of the server, from shared memory and /proc:'
SELECT pid, backend_type, limit_bytes, charged_bytes, row_bytes, rss_anon_bytes, outside_bytes
FROM sift_memory_usage_backends ORDER BY charged_bytes DESC NULLS LAST, pid;
SELECT count(*) > 4 AND bool_and(rss_bytes > 0) AS ok FROM sift_memory_usage_backends \gset
:must_be_true

\echo '4. The rows are dropped, and idle blocks given back:'
SELECT sift_test_drop('accounts'), sift_test_drop('columns') \gset
SELECT sift_trim() > 0 AS ok \gset
:must_be_true
SELECT kind, bytes, peak_bytes, blocks FROM sift_memory_usage WHERE bytes IS NOT NULL;
SELECT sum(bytes) = 0 AS ok FROM sift_memory_usage \gset
:must_be_true
\echo '5. An engine (test/unify) under a limit: rows written, moved to columnar files, dropped.'
SET sift.memory_limit = '64MB';
SELECT unify_register('events', 'sift') \gset
SELECT unify_load('events', 'SELECT aid::int8, bid::int8, 0.5::float8, filler::text, NULL::text, repeat(''x'', aid % 300) FROM pgbench_accounts WHERE aid <= 20000') AS loaded \gset
SELECT unify_write('events', 4000, 1000, 500, 1) AS written \gset
SELECT * FROM unify_stats();
SELECT sum(unify_move('events', 5000, 'demo_files')) AS moved FROM generate_series(1, 5) \gset
SELECT count(*) AS read FROM unify_read('demo_files') AS r(k int8, a int8, x float8, n text, o text, b text) \gset
\echo '   ' :loaded rows loaded, :written after writing, :moved moved to files, :read 'read back from them.'
SELECT :written = 23500 AND :moved = :written AND :read = :written AS ok \gset
:must_be_true
SELECT unify_drop('events') \gset
SELECT sum(bytes) FILTER (WHERE kind <> 'idle') AS held, max(peak_bytes) AS peak FROM sift_memory_usage \gset
\echo '    After the drop' :held 'bytes are held; at most' :peak 'were.'
SELECT :held = 0 AND :peak <= 64 * 1024 * 1024 AS ok \gset
:must_be_true
\echo 'All of this was checked while it was shown.'
