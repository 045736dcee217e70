-- An aggregate over a whole partition: state, result and the copy kept for the peers are all alive at once.
-- Reported: related: https://github.com/greenplum-db/gpdb/pull/13142 (Fix incorrect amount of memory allocated for WindowAgg)
-- @ends refused
-- @slow
-- @setup
CREATE TABLE line AS SELECT i, repeat(md5(i::text), 8) AS t FROM generate_series(1, 700000) i;
-- @run
SET max_parallel_workers_per_gather = 0;
SELECT max(length(s)) FROM (SELECT string_agg(t, ',') OVER () AS s FROM line LIMIT 3) q;
