-- Settings: units, ranges, rights.
\set VERBOSITY sqlstate
CREATE EXTENSION sift;
LOAD 'sift';

SELECT name, setting, unit, context, vartype, min_val
FROM pg_settings WHERE name LIKE 'sift.%limit' OR name IN ('sift.log_min_peak', 'sift.track_statements') ORDER BY name COLLATE "C";

SET sift.memory_limit = '256MB';
SHOW sift.memory_limit;
SET sift.memory_limit = 1000;
SHOW sift.memory_limit;
SET sift.memory_limit = 0;
SHOW sift.memory_limit;
SET sift.memory_limit = -1;
SHOW sift.memory_limit;

-- out of range, not a number, no such setting
SET sift.memory_limit = -2;
SET sift.memory_limit = '4TB';
SET sift.max_memory_limit = -2;
SET sift.memory_limit = 'much';
SET sift.no_such_setting = 1;
SET sift.track_statements = 'some';
SET sift.log_min_peak = -2;
SHOW sift.memory_limit;

-- a user may set the one and not the other
CREATE ROLE regress_sift_user;
SET ROLE regress_sift_user;
SET sift.memory_limit = '1MB';
SHOW sift.memory_limit;
SET sift.max_memory_limit = '1MB';
RESET sift.max_memory_limit;
SET sift.track_statements = 'none';
SET sift.log_min_peak = 0;
RESET ROLE;
RESET sift.memory_limit;
GRANT SET ON PARAMETER sift.max_memory_limit TO regress_sift_user;
SET ROLE regress_sift_user;
SET sift.max_memory_limit = '1MB';
SHOW sift.max_memory_limit;
RESET ROLE;
RESET sift.max_memory_limit;
REVOKE SET ON PARAMETER sift.max_memory_limit FROM regress_sift_user;
DROP ROLE regress_sift_user;
DROP EXTENSION sift;
