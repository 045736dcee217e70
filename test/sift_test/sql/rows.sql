-- Rows of queries, each kept as one chunk.
\set VERBOSITY sqlstate
CREATE EXTENSION sift;
CREATE EXTENSION sift_test;

-- what is kept is what the query gave: nulls, dropped columns, long values
-- that are stored out of line, compressed or not, expanded arrays
CREATE TABLE long_rows (id int, dropped text, plain text, compressed text, far text, wide numeric, list int[]);
ALTER TABLE long_rows ALTER far SET STORAGE EXTERNAL;
INSERT INTO long_rows
SELECT i, 'x', 'row ' || i, repeat('abcdefgh', i * 100),
       (SELECT string_agg(md5((i * j)::text), '') FROM generate_series(1, 200) j),
       CASE WHEN i % 3 > 0 THEN (10::numeric ^ i) END,
       ARRAY(SELECT generate_series(1, i))
FROM generate_series(1, 200) i;
ALTER TABLE long_rows DROP dropped;
SELECT sift_test_keep('long', 'SELECT * FROM long_rows');
SELECT count(*) AS differ FROM (
    (SELECT * FROM long_rows EXCEPT
     SELECT * FROM sift_test_kept('long') AS k(id int, plain text, compressed text, far text, wide numeric, list int[]))
    UNION ALL
    (SELECT * FROM sift_test_kept('long') AS k(id int, plain text, compressed text, far text, wide numeric, list int[])
     EXCEPT SELECT * FROM long_rows)) d;

-- the kept rows do not need the table any more
DROP TABLE long_rows;
SELECT sum(length(compressed)), sum(length(far)), count(wide), sum(cardinality(list))
FROM sift_test_kept('long') AS k(id int, plain text, compressed text, far text, wide numeric, list int[]);

-- one chunk a row; two more are the list of rows and its description
SELECT name, ident, parent, kind, chunks BETWEEN 200 AND 210 AS chunks,
       total_bytes = used_bytes + free_bytes + dead_bytes AS adds_up,
       level = (SELECT level FROM pg_backend_memory_contexts WHERE name = 'CacheMemoryContext') AS level
FROM sift_memory_usage_contexts;
SELECT bytes = (SELECT sum(total_bytes) FROM sift_memory_usage_contexts) AS accounted
FROM (SELECT sum(bytes) AS bytes FROM sift_memory_usage WHERE kind IN ('row', 'large')) u;

-- PostgreSQL's own view shows the same context with the same bytes
SELECT p.ident, p.total_bytes = c.total_bytes AS total, p.used_bytes = c.used_bytes AS used,
       p.total_nblocks = c.blocks AS blocks
FROM pg_backend_memory_contexts p JOIN sift_memory_usage_contexts c USING (name, ident);

-- freed rows are dead until their block goes back
SELECT sift_test_keep('many', 'SELECT i, i::text FROM generate_series(1, 100000) i');
SELECT sift_test_free('many', 10);
SELECT dead_bytes > used_bytes AS dead, chunks > 10000 AND chunks < 10100 AS chunks
FROM sift_memory_usage_contexts WHERE ident = 'many';
SELECT sum(a) FROM sift_test_kept('many') AS k(a int, b text);
SELECT total_bytes AS before FROM sift_memory_usage_contexts WHERE ident = 'many' \gset
SELECT sift_test_free('many', 0);
SELECT total_bytes < :before / 2 AS given_back FROM sift_memory_usage_contexts WHERE ident = 'many';

-- dead chunks between live ones are used again
SELECT sift_test_replace(48, 48, 20000) < 2.5 AS equal, sift_test_replace(40, 400, 5000) < 2.5 AS mixed;

SELECT sift_test_drop('many'), sift_test_drop('long');
SELECT sift_test_drop('long');
SELECT sift_trim() >= 0 AS trimmed;
SELECT kind, bytes, blocks FROM sift_memory_usage WHERE kind IN ('row', 'batch', 'large', 'idle');

DROP EXTENSION sift_test;
DROP EXTENSION sift;
