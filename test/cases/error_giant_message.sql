-- Errors whose message is itself huge: it is formatted, copied for the handler and copied again for each level.
-- Reported: related: https://github.com/autobase-tech/autobase/issues/671
-- @ends caught
-- @slow
-- @setup
-- @run
SET log_min_messages = panic; SET client_min_messages = error;
DO $$
DECLARE m text;
BEGIN
  BEGIN
    BEGIN
      RAISE EXCEPTION '%', repeat('x', 120000000);
    EXCEPTION WHEN others THEN
      GET STACKED DIAGNOSTICS m = MESSAGE_TEXT;
      RAISE EXCEPTION 'again: %', m;
    END;
  EXCEPTION WHEN others THEN
    GET STACKED DIAGNOSTICS m = MESSAGE_TEXT;
    PERFORM length(m || SQLERRM);
  END;
END $$;
