-- Each cursor WITH HOLD keeps its whole result after commit, up to work_mem of it in memory.
-- Reported: https://github.com/pgjdbc/pgjdbc/issues/1110; https://github.com/nordic-institute/X-Road-Metrics/pull/82; https://github.com/anse1/sqlsmith/issues/40
-- @ends refused on 15
-- @slow
-- @setup
CREATE TABLE h AS SELECT i, repeat(md5(i::text), 6) AS t FROM generate_series(1, 150000) i;
-- @run
SET work_mem = '32MB'; SET max_parallel_workers_per_gather = 0;
SELECT format('DECLARE hc%s CURSOR WITH HOLD FOR SELECT * FROM h', i) FROM generate_series(1, 20) i \gexec
SELECT count(*) FROM pg_cursors;
