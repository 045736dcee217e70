-- A row of a few MB on disk that is most of a gigabyte once its values are decompressed together.
-- Reported: https://edu.fors.ru/ugolok-professora/rabota-s-dlinnymi-strokami-v-postgresql; https://github.com/eulerto/wal2json/issues/46
-- @ends refused
-- @slow
-- @setup
CREATE TABLE bomb (a text, b text, c text, d text, e text);
INSERT INTO bomb SELECT r, r, r, r, r FROM (SELECT repeat('0', 80000000) AS r) x;
SELECT pg_size_pretty(pg_total_relation_size('bomb'));
-- @run
SELECT count(*) FROM bomb WHERE concat_ws('', a, b, c, d) > 'x' OR a || b = c || d;
