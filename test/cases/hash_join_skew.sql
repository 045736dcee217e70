-- Every row of the build side has the same key and the statistics (taken before a bulk load) say otherwise,
-- so the hash table cannot be split into batches and grows past work_mem.
-- Reported: https://postgrespro.com/list/thread-id/2334395 (commit 4867d7f6, complaint of David Hinkle, postgr.es/m/32013.1487271761@sss.pgh.pa.us); https://techcommunity.microsoft.com/t5/microsoft-blog-for-postgresql/understanding-hash-join-memory-usage-and-oom-risks-in-postgresql/ba-p/4500308
-- @ends refused
-- @slow
-- @setup
CREATE TABLE orders (customer int, note text);
INSERT INTO orders SELECT i, repeat(md5(i::text), 5) FROM generate_series(1, 1000) i;
ANALYZE orders;
INSERT INTO orders SELECT 1, repeat(md5(i::text), 5) FROM generate_series(1, 2000000) i;
CREATE TABLE customer (id int, name text);
INSERT INTO customer SELECT i, 'c' || i FROM generate_series(1, 500000) i;
ANALYZE customer;
-- @run
SET work_mem = '4MB'; SET max_parallel_workers_per_gather = 0; SET jit = off;
SET enable_mergejoin = off; SET enable_nestloop = off;
-- "customer * 0 = 0" is always true, but is estimated at half a percent
SELECT count(o.note) FROM customer c JOIN orders o ON o.customer = c.id WHERE o.customer * 0 = 0;
