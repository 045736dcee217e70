-- ANALYZE with a high statistics target holds its whole sample of rows in memory, however wide they are.
-- Reported: https://github.com/yugabyte/yugabyte-db/issues/31032; https://github.com/greenplum-db/gpdb/pull/1936; https://github.com/laurenz/oracle_fdw/issues/82
-- @ends refused
-- @slow
-- @setup
CREATE TABLE w (i int, a text, b text, c text, d text);
ALTER TABLE w ALTER a SET STORAGE PLAIN, ALTER b SET STORAGE PLAIN, ALTER c SET STORAGE PLAIN, ALTER d SET STORAGE PLAIN;
INSERT INTO w SELECT i, r || i, r || -i, r || i * 2, r || i * 3 FROM generate_series(1, 400000) i, LATERAL (SELECT repeat(md5(i::text), 8) AS r) x;
-- @run
SET default_statistics_target = 10000;
ANALYZE w;
