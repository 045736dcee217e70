# The extension in several databases and schemas, and dropped while it is in use.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'sift'
jit = off
autovacuum = off
});
$node->start;

# Preloaded without the extension: limits and hints are there.
my $large = q{SELECT array_agg(repeat('x', 1000)) FROM generate_series(1, 100000)};
my $stderr = ($node->psql('postgres', "SET sift.memory_limit = '30MB'; $large"))[2];
like($stderr, qr/ERROR:  out of memory\nDETAIL:  .*\nHINT:  sift\.memory_limit is 30720 kB/, 'a limit without the extension');

$node->safe_psql('postgres', 'CREATE EXTENSION sift');

# An older script goes with this library, and an update makes what a new
# installation makes.
my $objects = q{
	SELECT i.type, i.identity, coalesce(pg_get_functiondef(p.oid), pg_get_viewdef(c.oid)), p.proacl, c.relacl,
		obj_description(d.objid, d.classid::regclass::name)
	FROM pg_depend d CROSS JOIN pg_identify_object(d.classid, d.objid, 0) i
	LEFT JOIN pg_proc p ON p.oid = d.objid AND d.classid = 'pg_proc'::regclass
	LEFT JOIN pg_class c ON c.oid = d.objid AND d.classid = 'pg_class'::regclass
	WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
	AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'sift') ORDER BY 1, 2};
$node->safe_psql('postgres', q{CREATE DATABASE updated});
$node->safe_psql('updated', q{CREATE EXTENSION sift VERSION '1.0'});
is($node->safe_psql('updated', q{
	SELECT sift_trim() >= 0, (SELECT count(*) > 0 FROM sift_memory_usage), (SELECT count(*) > 0 FROM sift_memory_usage_backends),
		(SELECT count(*) FROM sift_memory_usage_total), (SELECT count(*) FROM sift_memory_usage_statements) >= 0}),
	't|t|t|1|t', 'this library serves the script of 1.0');
unlike($node->safe_psql('updated', $objects), qr/sift_recommended_limits/, 'which has what 1.0 had');
$node->safe_psql('updated', q{ALTER EXTENSION sift UPDATE});
like($node->safe_psql('updated', $objects), qr/sift_recommended_limits/, 'updated');
is($node->safe_psql('updated', $objects), $node->safe_psql('postgres', $objects), 'it is what a new installation makes');
$stderr = ($node->psql('updated', q{CREATE FUNCTION sift_trim_next() RETURNS int8 AS '$libdir/sift', 'sift_trim_9_9' LANGUAGE C}))[2];
like($stderr, qr/could not find function "sift_trim_9_9" in file/, 'a newer script says what this library lacks');

# Several databases look at the same server.
$node->safe_psql('postgres', 'CREATE EXTENSION sift_test; CREATE DATABASE other');
$node->safe_psql('other', 'CREATE SCHEMA tools; CREATE EXTENSION sift SCHEMA tools; CREATE EXTENSION sift_test');
my $holder = $node->background_psql('other', on_error_stop => 0);
my $pid = $holder->query_safe('SELECT pg_backend_pid()');
$holder->query_safe(q{SELECT sift_test_keep('rows', 'SELECT i, repeat($$x$$, 1000) FROM generate_series(1, 10000) i')});
my $row_bytes = "SELECT row_bytes > 10000000, datname FROM sift_memory_usage_backends WHERE pid = $pid";
is($node->safe_psql('postgres', $row_bytes), 't|other', 'seen from another database');
is($node->safe_psql('other', "SET search_path = tools; $row_bytes"), 't|other', 'and in another schema');
is($node->safe_psql('other', q{
	SELECT tools.sift_trim() >= 0, (SELECT count(*) FROM tools.sift_memory_usage_contexts),
		(SELECT count(*) > 0 FROM tools.sift_memory_usage), (SELECT count(*) FROM tools.sift_memory_usage_total)}),
	't|0|t|1', 'whose views need no search_path');

# The schema of an extension in use is changed; another session reads its views on.
my $reader = $node->background_psql('other', on_error_stop => 0);
$reader->query_safe('PREPARE look AS SELECT count(*) > 0 FROM tools.sift_memory_usage_backends');
is($reader->query_safe('EXECUTE look'), 't', 'a prepared query over a view');
$node->safe_psql('other', 'CREATE SCHEMA elsewhere; ALTER EXTENSION sift SET SCHEMA elsewhere');
is($reader->query_safe('SELECT count(*) > 0 FROM elsewhere.sift_memory_usage_backends'), 't', 'in the new schema');

# It is dropped while a context lives: the context stays, and is charged.
$node->safe_psql('other', 'DROP EXTENSION sift CASCADE');
is($node->safe_psql('other', q{SELECT count(*) FROM pg_proc WHERE proname LIKE 'sift\_%' AND proname NOT LIKE 'sift\_test%'}), 0, 'nothing is left of it');
is($node->safe_psql('postgres', $row_bytes), 't|other', 'what lives is still charged');
is($reader->query_safe(q{
	DO $$ BEGIN EXECUTE 'EXECUTE look'; RAISE 'found'; EXCEPTION WHEN undefined_table THEN NULL; END $$;
	SELECT 1}), 1, 'a session that has read its views goes on, without them');
is($holder->query_safe('SELECT 1'), 1, 'and so does the one that holds the context');
$node->safe_psql('other', 'CREATE EXTENSION sift; CREATE EXTENSION IF NOT EXISTS sift_test');
is($holder->query_safe(q{SELECT sift_test_drop('rows') IS NOT NULL}), 't', 'which can drop it when the extension is back');
is($holder->query_safe(q{SELECT row_bytes < 1000000 FROM sift_memory_usage_backends WHERE pid = pg_backend_pid()}), 't', 'and is charged for it no more');
$reader->quit;
$holder->quit;
$node->stop;

done_testing();
