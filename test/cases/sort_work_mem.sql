-- A sort of wide rows with a work_mem that someone has set too high.
-- Reported: https://github.com/zalando/spilo/issues/42
-- @ends refused
-- @setup
-- @run
SET work_mem = '2GB'; SET max_parallel_workers_per_gather = 0;
SELECT count(*) FROM (SELECT t FROM (SELECT repeat(md5(i::text), 20000) AS t FROM generate_series(1, 1200) i OFFSET 0) x ORDER BY t OFFSET 1) q;
