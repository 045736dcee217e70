-- unify: rows in memory by four allocators, moved to files and read back.
\set VERBOSITY sqlstate
CREATE EXTENSION sift;
CREATE EXTENSION unify;
COPY (SELECT) TO PROGRAM 'rm -rf unify_regress_*';
CREATE FUNCTION allocators() RETURNS SETOF text LANGUAGE sql AS
    $$SELECT unnest('{sift,store,malloc,aset}'::text[])$$;
-- count and checksum of what is in a directory
CREATE FUNCTION written(directory text, OUT rows int8, OUT checksum numeric) LANGUAGE sql AS $$
    SELECT count(*), sum(hashtextextended(r::text, 0))
    FROM unify_read(directory) AS r(key int8, amount int8, ratio float8, name text, note text, body text)
$$;

-- a registered table costs about 1 kB, or 2
SELECT unify_register(a, a) FROM allocators() a;
SELECT name, allocator, rows, bytes <= CASE WHEN allocator = 'store' THEN 2100 ELSE 1100 END AS small, allocations FROM unify_stats() ORDER BY name;

-- the same rows by each allocator: one allocation a row, or several
SELECT unify_write(a, 3000, 0, 0, 1), unify_write(a, 2000, 500, 300, 2), unify_write(a, 0, 4000, 0, 3) FROM allocators() a;
SELECT name, rows, bytes > rows * 3000 AS bytes, allocations = rows AS one FROM unify_stats() ORDER BY name;

-- moved in two batches, they are the same rows in the files
SELECT unify_move(a, 1000, 'unify_regress_' || a), unify_move(a, 100000, 'unify_regress_' || a) FROM allocators() a;
SELECT count(DISTINCT w) AS same, min(w.rows) AS rows FROM allocators() a, written('unify_regress_' || a) w;
SELECT unify_move('sift', 10, 'unify_regress_sift') AS none_left;
SELECT name, rows, bytes < 400000 AS given_back, allocations FROM unify_stats() WHERE name <> 'aset' ORDER BY name;

-- rows of any query, of all kinds of types
CREATE TABLE source AS
SELECT i AS id, i % 2 = 0 AS flag, (i % 100)::int2 AS small, repeat('long ', i) AS long, NULL::text AS nothing,
       i::numeric / 7 AS exact, ARRAY[i, i + 1] AS list, ('x' || i)::name AS fixed, now() AS at
FROM generate_series(1, 1000) i;
SELECT unify_register(a || ' any', a), unify_load(a || ' any', 'SELECT * FROM source'),
       unify_move(a || ' any', 1000, 'unify_regress_any_' || a) FROM allocators() a;
SELECT a, count(*) AS differ FROM allocators() a, LATERAL (
    SELECT FROM (SELECT s::text FROM source s EXCEPT ALL
          SELECT r::text FROM unify_read('unify_regress_any_' || a) AS r(id int, flag bool, small int2,
              long text, nothing text, exact numeric, list int[], fixed name, at timestamptz)) d) e
GROUP BY a;

-- a failed call leaves everything as it was
SELECT unify_register('kept', 'sift'), unify_write('kept', 1000, 0, 0, 5);
CREATE TEMP TABLE before AS SELECT * FROM unify_stats() WHERE name = 'kept';
SELECT unify_load('kept', 'SELECT 1');
SELECT unify_load('kept', 'SELECT g, g, g::float8, ''n'', ''o'', (1 / (1000 - g))::text FROM generate_series(1, 2000) g');
SELECT unify_load('kept', 'SELECT no_such_column');
SELECT unify_load('kept', 'not a query');
SELECT unify_load('kept', 'SELECT unify_drop(''kept'')');
SELECT unify_write('kept', 1, 1, 100000, 5);
SELECT unify_write('kept', -1, 0, 0, 5);
SET sift.memory_limit = '6MB';
SELECT unify_write('kept', 10000, 0, 0, 5);
SELECT unify_write('kept', 0, 1000, 0, 5);
SET sift.memory_limit = '5MB';
SELECT unify_move('kept', 1000, 'unify_regress_kept');
RESET sift.memory_limit;
SET statement_timeout = '50ms';
SELECT unify_load('kept', 'SELECT g, g, g::float8, ''n'', ''o'', pg_sleep(g)::text FROM generate_series(1, 100) g');
RESET statement_timeout;
SELECT s.rows = b.rows AS rows, s.bytes <= b.bytes + 262144 AS bytes FROM unify_stats() s JOIN before b USING (name);
SELECT * FROM unify_read('unify_regress_kept') AS r(a int);
SELECT unify_move('kept', 1000, 'unify_regress_kept');
SELECT rows FROM written('unify_regress_kept');

-- a first load that fails does not fix the type
SELECT unify_register('untyped', 'sift'), unify_register('untyped aset', 'aset');
SELECT unify_load('untyped', 'SELECT 1 / (100 - g) FROM generate_series(1, 100) g');
SELECT unify_load('untyped', 'SELECT g::text FROM generate_series(1, 100) g');
SELECT unify_load('untyped', 'SELECT g FROM generate_series(1, 100) g');

-- ROLLBACK undoes nothing
BEGIN;
SELECT unify_load('untyped', 'SELECT ''more''::text');
ROLLBACK;
SELECT rows FROM unify_stats() WHERE name = 'untyped';

-- bad input
SELECT unify_register('kept', 'sift');
SELECT unify_register('other', 'jemalloc');
SELECT unify_load('nowhere', 'SELECT 1');
SELECT unify_drop('nowhere');
SELECT unify_move('untyped', 100, 'no/such/directory');
SELECT unify_move('untyped', 100, 'base');
SELECT unify_move('untyped', -1, 'unify_regress_x');
SELECT * FROM unify_read('no_such_directory') AS r(a text);
SELECT * FROM unify_read('unify_regress_kept') AS r(a text);
SELECT * FROM unify_read('unify_regress_kept') AS r(key int8, amount int8, ratio float8, name text, note text, body int8);
COPY (SELECT) TO PROGRAM 'printf x | dd of=unify_regress_kept/1.4 bs=1 seek=100 conv=notrunc 2>/dev/null';
SELECT rows FROM written('unify_regress_kept');
COPY (SELECT) TO PROGRAM 'printf "\377\377\377" | dd of=unify_regress_kept/1.4 bs=1 seek=29 conv=notrunc 2>/dev/null';
SELECT rows FROM written('unify_regress_kept');
COPY (SELECT) TO PROGRAM 'truncate -s 10 unify_regress_kept/1.4';
SELECT rows FROM written('unify_regress_kept');
CREATE ROLE regress_unify_user;
SET ROLE regress_unify_user;
SELECT unify_move('untyped', 1, 'unify_regress_x');
SELECT * FROM unify_read('unify_regress_kept') AS r(a text);
RESET ROLE;
DROP ROLE regress_unify_user;

-- dropping gives all back at once
SELECT unify_drop(name) FROM unify_stats();
SELECT count(*) FROM unify_stats();
SELECT sum(bytes) FROM sift_memory_usage WHERE kind IN ('row', 'batch', 'large');
COPY (SELECT) TO PROGRAM 'rm -rf unify_regress_*';
DROP TABLE source;
DROP FUNCTION written(text), allocators();
DROP EXTENSION unify;
DROP EXTENSION sift;
