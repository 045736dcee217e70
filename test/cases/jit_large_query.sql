-- LLVM keeps its modules, types and code in memory of its own (C++ new in libLLVM), not in any context.
-- Reported: https://github.com/LemmyNet/lemmy/issues/4406 (cites BUG #16707, 16707-f5df308978a55bf8@postgresql.org); https://github.com/openstreetmap/mod_tile/issues/181; https://github.com/CrunchyData/postgres-operator/pull/3384; https://postgr.es/c/aef521849 (16.2)
-- @ends passes, outside
-- @slow
-- @setup
CREATE TABLE m (id int, a numeric, b int, c text, d timestamptz) PARTITION BY HASH (id);
SELECT format('CREATE TABLE m_%s PARTITION OF m FOR VALUES WITH (MODULUS 2000, REMAINDER %s)', i, i) FROM generate_series(0, 1999) i \gexec
INSERT INTO m SELECT i, i, i, 'x' || i, now() FROM generate_series(1, 5000) i;
ANALYZE m;
-- @run
SET jit = on; SET jit_above_cost = 0; SET jit_inline_above_cost = -1; SET jit_optimize_above_cost = -1; SET max_stack_depth = '2MB';
SET max_parallel_workers_per_gather = 0;
SELECT count(*) FROM m WHERE a + b > 3 AND c LIKE 'x%' AND d > '2020-01-01' AND coalesce(a, 0) * 2 < 1e9 AND upper(c) <> 'Y';
