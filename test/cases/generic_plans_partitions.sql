-- Prepared statements over a partitioned table: each cached generic plan holds all partitions and lives
-- until the session ends.
-- Reported: https://pganalyze.com/blog/5mins-postgres-high-memory-usage-prepared-statements (Prefect's postmortem); https://github.com/hasura/graphql-engine/issues/5404 (cites 15923-4b35496c683c52d2@postgresql.org); https://github.com/pgpartman/pg_partman/issues/787
-- @ends refused
-- @slow
-- @setup
CREATE TABLE run (id bigint, state text, at timestamptz, PRIMARY KEY (id)) PARTITION BY HASH (id);
SELECT format('CREATE TABLE run_%s PARTITION OF run FOR VALUES WITH (MODULUS 800, REMAINDER %s)', i, i) FROM generate_series(0, 799) i \gexec
-- @run
SET plan_cache_mode = force_generic_plan; SET jit = off; SET max_parallel_workers_per_gather = 0;
SELECT format('PREPARE q%s(bigint, timestamptz) AS SELECT * FROM run WHERE id = $1 AND at > $2 AND state <> %L', i, i) FROM generate_series(1, 160) i \gexec
\o /dev/null
SELECT format('EXECUTE q%s(%s, now())', i, i) FROM generate_series(1, 160) i \gexec
\o
SELECT count(*) FROM pg_prepared_statements;
