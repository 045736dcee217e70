-- Decoding a transaction with very many subtransactions: the entries for them are not counted against
-- logical_decoding_work_mem and cannot be spilled.  In a client backend, through the SQL functions.
-- Reported: https://git.cse.iitb.ac.in/abuhujairkhan/postgres-fd-implementation/-/blob/cec2edfa7859279f36d2374770ca920c59c73dd8/src/backend/utils/misc/guc.c (commit cec2edfa: what is not accounted); https://www.enterprisedb.com/postgres-tutorials/postgres-13-logicaldecodingworkmem-and-how-it-saves-your-server-going-out-memory
-- @ends refused
-- @slow
-- @setup
SET synchronous_commit = on;
CREATE TABLE ld (i int);
SELECT 'slot' FROM pg_create_logical_replication_slot('sift_ld', 'test_decoding');
DO $$ BEGIN
  FOR i IN 1..500000 LOOP
    BEGIN INSERT INTO ld VALUES (i); EXCEPTION WHEN others THEN NULL; END;
  END LOOP;
END $$;
-- @run
SET logical_decoding_work_mem = '256MB';
SELECT count(*) FROM pg_logical_slot_peek_changes('sift_ld', NULL, NULL);
SELECT pg_drop_replication_slot('sift_ld');
