-- VACUUM before 17 asks for its array of dead tuples at once, sized by the table, though it may touch little of
-- it: a request far larger than the memory it will really use.
-- Reported: https://github.com/tracyhenry/Kyrix/issues/120 (quotes rhaas.blogspot.com/2019/01/how-much-maintenanceworkmem-do-i-need.html); https://github.com/MbinOrg/mbin/pull/2219
-- @ends refused on 15
-- @slow
-- @setup
CREATE UNLOGGED TABLE vt (i int, pad text) WITH (autovacuum_enabled = off);
ALTER TABLE vt ALTER pad SET STORAGE PLAIN;
INSERT INTO vt SELECT i, repeat('x', 4100) FROM generate_series(1, 180000) i;
CREATE INDEX ON vt (i);
DELETE FROM vt WHERE i % 100 = 0;
-- @run
SET maintenance_work_mem = '1GB';
VACUUM (PARALLEL 0) vt;
