-- A GIN build collects entries in memory up to maintenance_work_mem.
-- Reported: https://github.com/geldata/gel/pull/5657; https://github.com/lanterndata/lantern/pull/200; https://github.com/orioledb/orioledb/issues/294
-- @ends refused
-- @slow
-- @setup
CREATE TABLE g AS SELECT i, ARRAY(SELECT (i * 37 + j * 7919) % 3000000 FROM generate_series(1, 20) j) AS tags FROM generate_series(1, 450000) i;
-- @run
SET maintenance_work_mem = '1GB'; SET max_parallel_maintenance_workers = 0;
CREATE INDEX g_tags ON g USING gin (tags);
