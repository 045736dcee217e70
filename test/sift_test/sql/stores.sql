-- Rows that can move.
CREATE EXTENSION sift;
CREATE EXTENSION sift_test;

SELECT sift_test_store();

-- memory is short, and reclaimers change what asks for it
SELECT sift_test_store_pressure();

-- charges refused one after the other: some were
SELECT sift_test_store_refusals() > 20 AS refused;

-- rows that are removed in any order give their memory back, slots with them
SELECT sift_test_store_shrinks(100, 100000, 10, 3) < 12 AS a_tenth,
    sift_test_store_shrinks(100, 500000, 1000, 3) < 150 AS a_thousandth,
    sift_test_store_shrinks(1000, 20000, 10, 3) < 24 AS longer,
    sift_test_store_shrinks(100, 2000, 10, 1000) < 48 AS thousand_rounds;

-- what the view shows, and what the user can do
SELECT sift_test_store_fill() > 0 AS filled;
SELECT name, kind, rows, slot_bytes > 0 AS slots, dead_bytes + free_bytes > used_bytes AS sparse
FROM sift_memory_usage_contexts WHERE name LIKE 'sift_test%';
SELECT sift_compact() > 0 AS compacted;
SELECT sift_compact() AS again;
SELECT rows, slot_bytes > 0 AS slots, total_bytes < 100000 AS small
FROM sift_memory_usage_contexts WHERE name LIKE 'sift_test%';

-- rows are moved to where whole large pages become free
SELECT sift_test_store_thin(1000000);
SELECT sum(bytes) < 70000000 AS given_back FROM sift_memory_usage WHERE kind IN ('row', 'idle');

DROP EXTENSION sift_test;
DROP EXTENSION sift;
