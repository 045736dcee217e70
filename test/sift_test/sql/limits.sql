-- The limit of a session.
\set VERBOSITY sqlstate
CREATE EXTENSION sift;
CREATE EXTENSION sift_test;
CREATE VIEW held AS
    SELECT sum(bytes) AS bytes, sum(refusals) AS refusals
    FROM sift_memory_usage WHERE kind IN ('row', 'batch', 'large', 'idle');

-- what a handler sees of an error
CREATE FUNCTION caught(statement text, OUT state text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
        detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
END $$;
CREATE FUNCTION load_many() RETURNS int8 LANGUAGE sql AS
    $$SELECT sift_test_keep('passes', 'SELECT i, i::text FROM generate_series(1, 100000) i')$$;

-- a load that passes the limit ends in an error, and leaves nothing
SET sift.memory_limit = '2MB';
SELECT sift_test_keep('fits', 'SELECT i, i::text FROM generate_series(1, 10000) i');
SELECT load_many();
SELECT bytes <= 2 * 1024 * 1024 AS below, refusals FROM held;
SELECT ident FROM sift_memory_usage_contexts;
SELECT count(*) FROM sift_test_kept('fits') AS k(a int, b text);

-- message, detail and hint reach a handler
SELECT state, message, regexp_replace(detail, '\d+', 'N') AS detail,
       hint ~ '^sift\.memory_limit is 2048 kB; held are \d+ kB: row \d+ kB, batch 0 kB, large \d+ kB, idle \d+ kB, server 0 kB, shared 0 kB\.$' AS hint
FROM caught('SELECT load_many()');

-- in a subtransaction, and again
BEGIN;
SAVEPOINT s;
SELECT load_many();
ROLLBACK TO s;
SELECT sift_test_keep('small', 'SELECT 1');
COMMIT;

-- below what is held nothing more is granted, and nothing is taken away
SELECT sift_test_keep('fits', 'SELECT i, i::text FROM generate_series(1, 10000) i');
SET sift.memory_limit = '100kB';
SELECT sift_test_keep('more', 'SELECT 1');
SELECT count(*) FROM sift_test_kept('fits') AS k(a int, b text);
SELECT sift_test_drop('fits');
SELECT sift_test_keep('more', 'SELECT 1');
SELECT bytes <= 100 * 1024 AS below FROM held;

-- no memory at all, then no limit at all
SET sift.memory_limit = 0;
SELECT sift_test_keep('none', 'SELECT 1');
RESET sift.memory_limit;
SELECT sift_test_keep('none', 'SELECT 1');

-- the smaller limit counts, and is the one that is named
SET sift.max_memory_limit = '1MB';
SET sift.memory_limit = '64MB';
SELECT load_many();
SELECT split_part(hint, ';', 1) AS hint FROM caught('SELECT load_many()');
SET sift.memory_limit = '500kB';
SELECT split_part(hint, ';', 1) AS hint FROM caught('SELECT load_many()');

-- another error of the same code gets no hint of ours
SELECT * FROM caught($q$DO $$
BEGIN
    RAISE out_of_memory USING MESSAGE = 'out of something else';
END $$$q$);

-- a user cannot get round what a superuser has set
CREATE ROLE regress_sift_user;
GRANT SELECT ON held TO regress_sift_user;
SET SESSION AUTHORIZATION regress_sift_user;
SET sift.memory_limit = -1;
SELECT load_many();
SELECT bytes <= 1024 * 1024 AS below FROM held;
RESET SESSION AUTHORIZATION;

-- peaks
RESET sift.max_memory_limit;
RESET sift.memory_limit;
SELECT sift_test_keep('many', 'SELECT i, i::text FROM generate_series(1, 200000) i');
SELECT sift_test_drop('many');
SELECT sift_trim() > 0 AS trimmed;
SELECT peak_bytes > 4 * 1024 * 1024 AS peak FROM sift_memory_usage WHERE kind = 'row';
SELECT sift_reset_peak();
SELECT bool_and(peak_bytes = bytes) AS reset FROM sift_memory_usage WHERE bytes IS NOT NULL;

REVOKE SELECT ON held FROM regress_sift_user;
DROP ROLE regress_sift_user;
DROP FUNCTION caught(text), load_many();
DROP VIEW held;
DROP EXTENSION sift_test;
DROP EXTENSION sift;
