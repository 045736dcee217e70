-- Each pass through a block with EXCEPTION is a subtransaction; where something was left in its
-- CurTransactionContext (here a queued notification) the 8 kB context stays until the transaction ends.
-- Reported: https://github.com/timescale/timescaledb/issues/7053 and https://github.com/timescale/timescaledb/pull/7088
-- @ends caught
-- @setup
-- @run
DO $$
BEGIN
  FOR i IN 1..80000 LOOP
    BEGIN
      PERFORM pg_notify('job', i::text);
    EXCEPTION WHEN others THEN NULL;
    END;
  END LOOP;
END $$;
