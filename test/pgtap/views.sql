-- The views: their columns, and that their figures fit together.
\unset ECHO
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\set ON_ERROR_STOP true
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS sift;
CREATE EXTENSION IF NOT EXISTS sift_test;
BEGIN;
SELECT plan(26);

CREATE FUNCTION columns_of(view_name name) RETURNS text[] LANGUAGE sql AS $$
    SELECT array_agg(attname || ' ' || format_type(atttypid, atttypmod) ORDER BY attnum)
    FROM pg_attribute WHERE attrelid = view_name::regclass AND attnum > 0
$$;

SELECT is(columns_of('sift_memory_usage'), ARRAY[
    'kind text', 'bytes bigint', 'peak_bytes bigint', 'blocks bigint',
    'blocks_taken bigint', 'blocks_returned bigint', 'refusals bigint'],
    'columns of sift_memory_usage');
SELECT is(columns_of('sift_memory_usage_contexts'), ARRAY[
    'name text', 'ident text', 'parent text', 'kind text', 'level integer',
    'blocks bigint', 'total_bytes bigint', 'used_bytes bigint', 'free_bytes bigint',
    'dead_bytes bigint', 'chunks bigint', 'rows bigint', 'slot_bytes bigint'],
    'columns of sift_memory_usage_contexts');
SELECT is(columns_of('sift_memory_usage_backends'), ARRAY[
    'pid integer', 'leader_pid integer', 'backend_type text', 'datname text',
    'usename text', 'limit_bytes bigint', 'charged_bytes bigint', 'row_bytes bigint',
    'batch_bytes bigint', 'large_bytes bigint', 'idle_bytes bigint',
    'server_bytes bigint', 'shared_bytes bigint', 'peak_bytes bigint',
    'refusals bigint', 'waived_bytes bigint', 'rss_bytes bigint',
    'rss_anon_bytes bigint', 'peak_rss_bytes bigint', 'free_heap_bytes bigint',
    'outside_bytes bigint', 'accounted_share numeric'],
    'columns of sift_memory_usage_backends');
SELECT is(columns_of('sift_memory_usage_total'), ARRAY[
    'limit_bytes bigint', 'charged_bytes bigint', 'peak_bytes bigint', 'backends bigint',
    'refusals bigint'],
    'columns of sift_memory_usage_total');
SELECT is(columns_of('sift_memory_usage_statements'), ARRAY[
    'userid oid', 'dbid oid', 'queryid bigint', 'toplevel boolean', 'calls bigint',
    'max_peak_bytes bigint', 'mean_peak_bytes bigint', 'last_peak_bytes bigint',
    'refusals bigint', 'waived_bytes bigint'],
    'columns of sift_memory_usage_statements');
SELECT is_empty('SELECT FROM sift_memory_usage_statements WHERE calls < 1 OR max_peak_bytes < mean_peak_bytes OR max_peak_bytes < last_peak_bytes OR mean_peak_bytes < 0 OR last_peak_bytes < 0',
    'peaks of statements fit together');
SELECT is(columns_of('sift_memory_refusals'), ARRAY[
    'at timestamp with time zone', 'pid integer', 'usename text', 'datname text',
    'queryid bigint', 'context_name text', 'kind text', 'requested_bytes bigint',
    'charged_bytes bigint', 'limit_bytes bigint', 'top_contexts text[]'],
    'columns of sift_memory_refusals');
SELECT function_returns('sift_compact', 'bigint');
SELECT function_returns('sift_trim', 'bigint');
SELECT function_returns('sift_reset_peak', 'void');
SELECT set_eq('SELECT kind FROM sift_memory_usage',
    ARRAY['row', 'batch', 'large', 'idle', 'server', 'shared'], 'kinds');

-- What is measured here is not what a plan of parallel workers would see.
SELECT is_empty($$SELECT proname FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid
    WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'sift')
      AND d.classid = 'pg_proc'::regclass AND (proparallel <> 'r' OR provolatile <> 'v')$$,
    'functions are volatile and parallel restricted');

-- Rows that are kept, in all three places where they show.
SELECT is(sift_test_keep('rows', 'SELECT i, repeat(''x'', i % 300) FROM generate_series(1, 50000) i'),
    50000::bigint, 'rows are kept');
SELECT is(
    (SELECT total_bytes FROM sift_memory_usage_contexts WHERE ident = 'rows'),
    (SELECT sum(bytes)::bigint FROM sift_memory_usage WHERE kind IN ('row', 'batch', 'large')),
    'the context is all that is held');
SELECT is(
    (SELECT blocks FROM sift_memory_usage_contexts WHERE ident = 'rows'),
    (SELECT sum(blocks)::bigint FROM sift_memory_usage WHERE kind IN ('row', 'batch', 'large')),
    'and its blocks are all blocks');
SELECT results_eq(
    $$SELECT row_bytes, batch_bytes, large_bytes, idle_bytes,
             charged_bytes = row_bytes + batch_bytes + large_bytes + idle_bytes + server_bytes
      FROM sift_memory_usage_backends WHERE pid = pg_backend_pid()$$,
    $$SELECT sum(bytes) FILTER (WHERE kind = 'row')::bigint, sum(bytes) FILTER (WHERE kind = 'batch')::bigint,
             sum(bytes) FILTER (WHERE kind = 'large')::bigint, sum(bytes) FILTER (WHERE kind = 'idle')::bigint,
             true
      FROM sift_memory_usage$$,
    'the view over all backends has the same figures');
SELECT ok(total_bytes = used_bytes + free_bytes + dead_bytes, 'total = used + free + dead')
FROM sift_memory_usage_contexts WHERE ident = 'rows';
SELECT ok(used_bytes > total_bytes * 0.9, 'rows lie close together')
FROM sift_memory_usage_contexts WHERE ident = 'rows';
SELECT is(chunks, 50004::bigint, 'a chunk a row, and four more')
FROM sift_memory_usage_contexts WHERE ident = 'rows';
SELECT is(blocks_taken - blocks_returned, blocks, 'blocks of rows')
FROM sift_memory_usage WHERE kind = 'row';
SELECT ok(bool_and(peak_bytes >= bytes), 'peaks') FROM sift_memory_usage WHERE bytes IS NOT NULL;
SELECT ok(rss_anon_bytes <= rss_bytes AND rss_bytes <= peak_rss_bytes
          AND outside_bytes = greatest(rss_anon_bytes - charged_bytes - free_heap_bytes, 0), 'figures of the system')
FROM sift_memory_usage_backends WHERE pid = pg_backend_pid();

-- A long ident is clipped at a whole character.
SELECT is(sift_test_keep(repeat('ä', 2000), 'SELECT 1'), 1::bigint, 'a long name');
SELECT is(ident, repeat('ä', 511), 'is clipped')
FROM sift_memory_usage_contexts WHERE ident LIKE 'ä%';
SELECT lives_ok(format('SELECT sift_test_drop(%L)', repeat('ä', 2000)), 'drop it');
SELECT lives_ok($$SELECT sift_test_drop('rows')$$, 'drop the rows');

SELECT * FROM finish();
ROLLBACK;
