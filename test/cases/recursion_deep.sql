-- Deep recursion of a PL/pgSQL function with a large argument: every level has its own SPI and expression contexts.
-- Reported: https://github.com/prisma/orm/issues/6274; https://github.com/qwat/qwat-data-model/issues/93
-- @ends refused
-- @setup
CREATE FUNCTION down(n int, doc text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE own text := doc || n;
BEGIN
  IF n = 0 THEN RETURN length(own); END IF;
  RETURN down(n - 1, own);
END $$;
-- @run
SET max_stack_depth = '7MB';
SELECT down(2500, repeat('x', 100000));
