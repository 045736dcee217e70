-- An upsert into many partitions: routing state and a translated projection for every one of them are kept
-- until the statement ends, the relation cache entries until the session ends.
-- Reported: https://github.com/timescale/timescaledb/issues/643; https://github.com/timescale/timescaledb/issues/515; https://github.com/timescale/timescaledb/pull/359
-- @ends refused
-- @setup
SELECT format('CREATE TABLE met (gone int, day int, dev int, %s) PARTITION BY LIST (day)', string_agg('c' || j || ' float8', ', ')) FROM generate_series(1, 80) j \gexec
ALTER TABLE met DROP COLUMN gone;
SELECT format('CREATE TABLE met_%s PARTITION OF met FOR VALUES IN (%s)', i, i) FROM generate_series(0, 1999) i \gexec
CREATE UNIQUE INDEX ON met (day, dev);
-- @run
SELECT format('INSERT INTO met SELECT i, 1, %s FROM generate_series(0, 1999) i ON CONFLICT (day, dev) DO UPDATE SET %s',
   (SELECT string_agg('i', ', ') FROM generate_series(1, 80) j),
   (SELECT string_agg(format('c%s = coalesce(excluded.c%s, met.c%s)', j, j, j), ', ') FROM generate_series(1, 80) j)) \gexec
