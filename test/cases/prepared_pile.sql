-- A driver that prepares every distinct statement and never deallocates.
-- Reported: https://github.com/drogonframework/drogon/issues/2533; https://github.com/elixir-ecto/ecto/issues/3286; https://github.com/pgjdbc/pgjdbc/issues/3122; https://github.com/upper/db/pull/166
-- @ends refused
-- @setup
CREATE TABLE t (a int, b text, c timestamptz, d numeric, e int);
-- @run
DO $$
BEGIN
  FOR i IN 1..15000 LOOP
    EXECUTE format('PREPARE p%s AS INSERT INTO t (a, b, c, d, e) VALUES %s', i,
                   (SELECT string_agg(format('(%s, ''x'', now(), 1.5, %s)', i, j), ',') FROM generate_series(1, 1 + i % 30) j));
  END LOOP;
END $$;
SELECT count(*) FROM pg_prepared_statements;
