-- Who sees what of other users' sessions, and who may do what.
\unset ECHO
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\set ON_ERROR_STOP true
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS sift;
BEGIN;
SELECT plan(22);

CREATE ROLE sift_somebody;
CREATE ROLE sift_monitor IN ROLE pg_read_all_stats;

-- Everybody may look at the views and has the functions.
SELECT ok(has_table_privilege('sift_somebody', v, 'SELECT'), 'SELECT on ' || v)
FROM unnest('{sift_memory_usage,sift_memory_usage_contexts,sift_memory_usage_backends,sift_memory_usage_statements}'::text[]) v;
SELECT ok(has_function_privilege('sift_somebody', f, 'EXECUTE'), 'EXECUTE on ' || f)
FROM unnest('{sift_compact(),sift_trim(),sift_reset_peak(),sift_last_statement()}'::text[]) f;

SELECT isnt_empty('SELECT FROM sift_memory_usage_backends WHERE pid = pg_backend_pid() AND datname = current_database() AND usename = current_user',
    'a superuser sees whose session it is');

-- Another user sees every row and its bytes, and not whose they are.
SET ROLE sift_somebody;
SELECT is((SELECT count(*) FROM sift_memory_usage_backends),
          (SELECT count(DISTINCT pid) FROM sift_memory_usage_backends), 'every process has a row');
SELECT is_empty('SELECT FROM sift_memory_usage_backends WHERE datname IS NOT NULL OR usename IS NOT NULL OR leader_pid IS NOT NULL OR refusals IS NOT NULL',
    'nothing that tells whose it is');
SELECT isnt_empty('SELECT FROM sift_memory_usage_backends WHERE pid = pg_backend_pid() AND backend_type = ''client backend'' AND charged_bytes >= 0 AND peak_bytes >= 0 AND rss_bytes > 0 AND outside_bytes >= 0',
    'but all bytes');
SELECT lives_ok('SELECT sift_compact(), sift_trim(), sift_reset_peak()', 'anyone may trim and reset the own session');
SELECT is((SELECT count(*) FROM sift_memory_usage_statements WHERE max_peak_bytes IS NULL OR waived_bytes IS NULL), 0::bigint, 'bytes of all statements');
SELECT is_empty('SELECT FROM sift_memory_usage_statements WHERE (userid IS NOT NULL OR dbid IS NOT NULL OR queryid IS NOT NULL OR toplevel IS NOT NULL OR calls IS NOT NULL OR refusals IS NOT NULL) AND userid IS DISTINCT FROM (SELECT oid FROM pg_roles WHERE rolname = current_user)',
    'but only the own ones are told apart');
SELECT throws_ok('SELECT sift_reset_statements()', '42501', NULL, 'not everybody may forget them');
SELECT throws_ok('SET sift.max_memory_limit = 1', '42501', NULL,
    'only a superuser sets sift.max_memory_limit');
RESET ROLE;

SET ROLE sift_monitor;
SELECT isnt_empty('SELECT FROM sift_memory_usage_backends WHERE pid = pg_backend_pid() AND datname = current_database() AND usename IS NOT NULL AND refusals = 0',
    'pg_read_all_stats sees all');
SELECT isnt_empty('SELECT FROM sift_memory_usage_statements WHERE userid <> (SELECT oid FROM pg_roles WHERE rolname = current_user)',
    'of statements too');
SELECT is_empty('SELECT FROM sift_memory_usage_statements WHERE userid IS NULL', 'all of them');
RESET ROLE;

SELECT is(extrelocatable, true, 'relocatable') FROM pg_extension WHERE extname = 'sift';
SELECT is(bool_or(trusted), false, 'not trusted') FROM pg_available_extension_versions WHERE name = 'sift';

SELECT * FROM finish();
ROLLBACK;
