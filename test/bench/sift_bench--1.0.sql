/* sift_bench--1.0.sql */

\echo Use "CREATE EXTENSION sift_bench" to load this file. \quit

-- Nanoseconds that an operation takes in a context of that kind, and of work
-- "random" what the context holds in the end as a multiple of the bytes asked
-- for; null where the kind cannot do that work.  See bench.sql for kinds and
-- works.
CREATE FUNCTION sift_bench(kind text, work text, min_size int4, max_size int4,
    alive int8, trained bool, OUT ns float8, OUT held float8)
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Take memory from the system, touch it and give it back; nanoseconds a page of 4 kB.
CREATE FUNCTION sift_bench_touch(bytes int8) RETURNS float8
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Nanoseconds that it takes to free the oldest of so many rows of so many values and
-- make another, and bytes that a row takes; see rows_bench.c for kinds.
CREATE FUNCTION sift_bench_rows(kind text, columns int4, alive int4, OUT ns float8, OUT bytes float8)
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Fill memory with rows, free all but one in "keep"; bytes of the rows that stay.
CREATE FUNCTION sift_bench_pin(kind text, bytes int8, keep int4) RETURNS int8
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Bytes by which this session has grown since that began.
CREATE FUNCTION sift_bench_pinned() RETURNS int8
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Have that allocator give back what it can.
CREATE FUNCTION sift_bench_pin_trim() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Row stores, see store_bench.c.
CREATE FUNCTION sift_bench_store(size int4, rows int8,
    OUT put_remove_ns float8, OUT palloc_pfree_ns float8)
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION sift_bench_store_many(rows int8,
    OUT get_ns float8, OUT gets_per_second float8)
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION sift_bench_store_compact(size int4, rows int8, keep int4,
    OUT given_gb_per_second float8, OUT copied_gb_per_second float8)
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
