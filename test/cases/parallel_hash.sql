-- A parallel hash join keeps its table in dynamic shared memory (/dev/shm): work_mem times participants.
-- Reported: https://github.com/docker-library/postgres/issues/416; https://github.com/router-for-me/CLIProxyAPIHome/issues/81
-- @ends refused
-- @slow
-- @setup
CREATE TABLE l AS SELECT i AS k, repeat(md5(i::text), 4) AS pad FROM generate_series(1, 3000000) i;
CREATE TABLE r AS SELECT i AS k, repeat(md5((-i)::text), 4) AS pad FROM generate_series(1, 3000000) i;
ALTER TABLE l SET (parallel_workers = 2); ALTER TABLE r SET (parallel_workers = 2);
ANALYZE l; ANALYZE r;
-- @run
SET work_mem = '256MB'; SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
SET enable_mergejoin = off; SET enable_nestloop = off; SET jit = off;
EXPLAIN (COSTS off) SELECT count(*), max(l.pad || r.pad) FROM l JOIN r USING (k);
SELECT count(*), max(l.pad || r.pad) FROM l JOIN r USING (k);
