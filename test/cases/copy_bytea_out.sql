-- What pg_dump does with a large bytea: detoasted, turned into hex (twice the size) and put into a line buffer.
-- Reported: https://www.fujitsu.com/jp/products/software/resources/feature-stories/postgres/article-index/binary-data-by-pgdump/; https://github.com/Vasuki-git/mailing_lists2/issues/41 (BUG #18775); https://github.com/2ndQuadrant/pglogical/issues/482
-- @ends refused
-- @setup
CREATE TABLE bt (id int, data bytea);
ALTER TABLE bt ALTER data SET STORAGE EXTERNAL;
INSERT INTO bt SELECT 1, decode(repeat('00112233445566778899aabbccddeeff', 9000000), 'hex');
-- @run
COPY bt TO '/dev/null';
