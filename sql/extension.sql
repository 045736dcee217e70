-- The extension's objects, in any schema.
\set VERBOSITY sqlstate
CREATE SCHEMA "Sift's own";
CREATE EXTENSION sift SCHEMA "Sift's own";
SELECT pg_describe_object(classid, objid, 0) COLLATE "C" AS object
FROM pg_depend
WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
  AND classid IN ('pg_proc'::regclass, 'pg_class'::regclass)
  AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'sift')
ORDER BY object;

-- the version has one source
SELECT extversion = (SELECT default_version FROM pg_available_extensions WHERE name = 'sift') AS current
FROM pg_extension WHERE extname = 'sift';

-- a kind a row; nothing is held by a session that has no Sift context
SELECT * FROM "Sift's own".sift_memory_usage WHERE kind <> 'server';
SELECT bytes > 0 AS held, peak_bytes >= bytes AS peak, blocks, refusals FROM "Sift's own".sift_memory_usage WHERE kind = 'server';
SELECT * FROM "Sift's own".sift_memory_usage_contexts;
SELECT "Sift's own".sift_trim() >= 0 AS trimmed;
SELECT "Sift's own".sift_reset_peak();

-- the extension can move
ALTER EXTENSION sift SET SCHEMA public;
SELECT count(*) FROM public.sift_memory_usage;
DROP EXTENSION sift;
DROP SCHEMA "Sift's own";
SELECT * FROM sift_memory_usage;

-- nor does anything in front of the search path get in the way
CREATE SCHEMA other;
CREATE FUNCTION other.sift_memory_usage() RETURNS int LANGUAGE sql AS 'SELECT 1';
SET search_path = other, public;
CREATE EXTENSION sift SCHEMA public;
SELECT count(*) FROM public.sift_memory_usage;
RESET search_path;
DROP EXTENSION sift;
DROP FUNCTION other.sift_memory_usage();
DROP SCHEMA other;
