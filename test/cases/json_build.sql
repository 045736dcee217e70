-- A whole table as one JSON document: the parse states, the string and the jsonb are each larger than the table.
-- Reported: https://github.com/citusdata/citus/issues/7940; https://github.com/prest/prest/issues/730; https://github.com/doneill/koop-provider-pg/issues/16
-- @ends refused
-- @slow
-- @setup
CREATE TABLE js AS SELECT i AS id, 'name ' || i AS name, now() AS at, i * 1.5 AS price FROM generate_series(1, 400000) i;
-- @run
SET max_parallel_workers_per_gather = 0;
SELECT length(json_agg(js)::text) FROM js;
SELECT pg_column_size(jsonb_agg(jsonb_build_object('id', id, 'name', name, 'at', at, 'price', price))) FROM js;
SELECT count(*) FROM jsonb_array_elements((SELECT jsonb_agg(js) FROM js));
