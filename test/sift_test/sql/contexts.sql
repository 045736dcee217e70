-- Everything that a server function may do with a context.
CREATE EXTENSION sift;
CREATE EXTENSION sift_test;

SELECT sift_test_contexts();
SELECT sift_test_misuse() IN ('checked', 'not a checking build') AS ok;

-- charges refused one after the other: some were
SELECT sift_test_refusals(false) > 20 AS refused, sift_test_refusals(true) > 20 AS no_oom;

-- only superusers may have charges refused
\set VERBOSITY sqlstate
CREATE ROLE regress_sift_user;
SET ROLE regress_sift_user;
SELECT sift_test_refuse_charge(1);
RESET ROLE;
DROP ROLE regress_sift_user;

-- near a limit, and near the end of the addresses
SELECT sift_test_limits();
\c
SELECT sift_test_few_addresses(40000000);
\c

-- contexts come and go: what is held after a round is what was held before
SELECT max(charged_bytes) - min(charged_bytes) < 1048576 AS charged,
       max(rss_bytes) - min(rss_bytes) < 1048576 AS resident
FROM sift_test_churn(500, 20) WHERE round >= 2;
SELECT sift_trim() > 0 AS trimmed;
SELECT kind, bytes, blocks FROM sift_memory_usage WHERE kind IN ('row', 'batch', 'large', 'idle');

DROP EXTENSION sift_test;
DROP EXTENSION sift;
