-- PL/Python objects live on Python's heap: its arenas are mmap'ed, the rest is malloc'ed by libpython, and no
-- context or server allocation knows of them.  GD keeps them for the session.
-- Reported: https://github.com/greenplum-db/gpdb/pull/3731; https://github.com/percona/pg_stat_monitor/issues/792 (memory outside contexts: 4.4 GB RSS, 10 MB in contexts)
-- @ends passes, outside
-- @slow
-- @setup
CREATE EXTENSION plpython3u;
CREATE FUNCTION hoard(n int) RETURNS int LANGUAGE plpython3u AS $$
GD.setdefault('keep', []).append([str(i) * 3 for i in range(n)])
return len(GD['keep'])
$$;
CREATE FUNCTION pull(n int) RETURNS int LANGUAGE plpython3u AS $$
rows = plpy.execute("SELECT i, md5(i::text) AS m FROM generate_series(1, %d) i" % n)
return len([r['m'] for r in rows])
$$;
-- @run
SELECT hoard(3000000);
SELECT pull(400000);
SELECT sum(total_bytes) / 1000000 AS contexts_mb FROM pg_backend_memory_contexts;
