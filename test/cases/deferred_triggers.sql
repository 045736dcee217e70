-- Every deferred trigger event waits in memory until commit.
-- Reported: https://postgrespro.com/list/id/37E7A0F6.9B9E8EC0@krs.ru (Jan Wieck, Vadim Mikheev); code comment and TODO unchanged since
-- @ends refused
-- @slow
-- @setup
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (a int, b int, c int, d int, e int, f int);
INSERT INTO parent VALUES (1);
SELECT format('ALTER TABLE child ADD FOREIGN KEY (%s) REFERENCES parent DEFERRABLE INITIALLY DEFERRED', x) FROM unnest('{a,b,c,d,e,f}'::text[]) x \gexec
-- @run
BEGIN;
INSERT INTO child SELECT 1, 1, 1, 1, 1, 1 FROM generate_series(1, 4000000) i;
ROLLBACK;
