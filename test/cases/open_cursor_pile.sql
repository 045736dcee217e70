-- Cursors opened in a loop and never closed: portals, plans and executor states live until the transaction ends.
-- Reported: https://github.com/pgjdbc/pgjdbc/issues/2500; https://github.com/pllua/pllua-deprecated/issues/39
-- @ends refused
-- @slow
-- @setup
CREATE TABLE c (a int PRIMARY KEY, b text); INSERT INTO c SELECT i, 'x' FROM generate_series(1, 1000) i;
-- @run
SET jit = off;
DO $$
DECLARE r refcursor; x record;
BEGIN
  FOR i IN 1..8000 LOOP
    r := NULL;
    OPEN r FOR EXECUTE format('SELECT c1.*, c2.b AS b2 FROM c c1 JOIN c c2 USING (a) WHERE c1.a > %s ORDER BY c1.b', i % 900);
    FETCH r INTO x;
  END LOOP;
END $$;
