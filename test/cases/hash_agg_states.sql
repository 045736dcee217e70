-- A hash aggregate can move new groups to disk, but not states that keep growing in the groups it has.
-- Reported: https://github.com/greenplum-db/gpdb/issues/833; https://www.postgresql.org/message-id/CA%2BvubOGaanYaGGb98etJPeJCbN%3DRAawx652MdmJVRK8%2BBeEP0w%40mail.gmail.com; https://github.com/citusdata/postgresql-hll/pull/40
-- @ends refused
-- @slow
-- @setup
CREATE TABLE ev (grp int, val text);
INSERT INTO ev SELECT i % 200, md5(i::text) || md5((-i)::text) FROM generate_series(1, 4000000) i;
ANALYZE ev;
-- @run
SET work_mem = '4MB'; SET max_parallel_workers_per_gather = 0; SET enable_sort = off;
SELECT count(*), sum(array_length(a, 1)) FROM (SELECT grp, array_agg(val) AS a FROM ev GROUP BY grp) s;
