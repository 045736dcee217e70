-- Looking for names that do not exist leaves a negative entry in the catalogue cache for each, for good.
-- Reported: https://github.com/greenplum-db/gpdb/pull/9113
-- @ends refused
-- @slow
-- @setup
-- @run
SELECT count(to_regclass('no_such_table_' || i)) FROM generate_series(1, 1500000) i;
