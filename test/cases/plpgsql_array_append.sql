-- A PL/pgSQL variable that grows in a loop.
-- Reported: https://dev.shade.cool/yugabyte/postgres-memory-allocation-and-os-memory-allocation-30f1 (Frits Hoogland)
-- @ends refused
-- @setup
-- @run
DO $$
DECLARE a text[]; 
BEGIN
  FOR i IN 1..30000 LOOP a[i] := repeat('x', 16384); END LOOP;
  RAISE NOTICE 'elements %', array_length(a, 1);
END $$;
