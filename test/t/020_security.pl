# Users who mean no good: names that are in the way, odd calls, others' secrets, and
# views that are read while sessions begin and end.
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
max_connections = 80
compute_query_id = on
});
$node->start;

# A schema that is searched first has all that the script could mistake for its own.
$node->safe_psql('postgres', q{
	CREATE SCHEMA trap;
	CREATE FUNCTION trap.sprung() RETURNS int LANGUAGE plpgsql AS $$BEGIN RAISE 'sprung'; END$$;
	CREATE TYPE trap.text AS (a int);
	CREATE TYPE trap.int8 AS (a int);
	CREATE TYPE trap.record AS (a int);
	CREATE TABLE trap.sift_memory_usage_backends (a int);
	CREATE FUNCTION trap.sift_trim() RETURNS int LANGUAGE sql AS 'SELECT trap.sprung()';
	CREATE FUNCTION trap.sift_memory_usage() RETURNS SETOF int LANGUAGE sql AS 'SELECT trap.sprung()';
	CREATE FUNCTION trap.sift_memory_refusals() RETURNS SETOF int LANGUAGE sql AS 'SELECT trap.sprung()';
	ALTER DATABASE postgres SET search_path = trap, public});
my $objects = q{SELECT string_agg(pg_describe_object(classid, objid, objsubid), '; ' ORDER BY pg_describe_object(classid, objid, objsubid))
	FROM pg_depend WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e' AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'sift')};
$node->safe_psql('postgres', 'CREATE EXTENSION sift SCHEMA public');
$node->safe_psql('template1', 'CREATE EXTENSION sift');
# in the one the schema is told, since it is not the first one
is($node->safe_psql('postgres', "SET search_path = public; $objects"), $node->safe_psql('template1', $objects),
	'objects are the same with a hostile search_path');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND objid = r.oid
	WHERE ev_class IN (SELECT objid FROM pg_depend WHERE deptype = 'e' AND classid = 'pg_class'::regclass) AND refclassid = 'pg_proc'::regclass
	  AND refobjid NOT IN (SELECT objid FROM pg_depend WHERE deptype = 'e' AND classid = 'pg_proc'::regclass)}), 0, 'and views call its own functions');
for my $view (qw(sift_memory_usage sift_memory_usage_backends sift_memory_usage_contexts sift_memory_refusals
	sift_memory_usage_total sift_memory_usage_statements))
{
	is($node->safe_psql('postgres', "SELECT count(*) >= 0 FROM public.$view"), 't', "$view is read in it");
}
my ($ret, $stdout, $stderr) = $node->psql('postgres', q{
	CREATE DATABASE before; \c before
	CREATE FUNCTION public.sift_trim() RETURNS int LANGUAGE sql AS 'SELECT 1';
	CREATE EXTENSION sift});
like($stderr, qr/ERROR:  function "sift_trim" already exists/, 'what was there before is an error, and is not taken over');

# Every function is called in all the ways there are.
my $functions = $node->safe_psql('postgres', q{SELECT proname FROM pg_proc
	WHERE pronamespace = 'public'::regnamespace AND proname LIKE 'sift\_%' ORDER BY 1});
is(scalar(split /\n/, $functions), 13, 'there are functions');
my $odd = '';
for my $f (map { "public.$_" } split /\n/, $functions)
{
	for my $call ("SELECT $f()", "SELECT * FROM $f() WITH ORDINALITY", "SELECT a FROM generate_series(1, 3) AS i, LATERAL $f() AS a",
		"SELECT $f(), $f()", "SELECT $f() FROM generate_series(1, 3) ORDER BY 1 LIMIT 1", "SELECT ($f()).*",
		"SELECT * FROM ROWS FROM ($f(), $f()) AS a", "SELECT * FROM $f() AS a(b)", "SELECT * FROM $f() AS (b int)",
		"SELECT * FROM ROWS FROM ($f() AS (b int, c text))", "SELECT $f(NULL)", "SELECT $f(1, 'a')", "SELECT $f(VARIADIC ARRAY[1])", "CALL $f()",
		"SELECT count(*) FROM (SELECT $f() FROM generate_series(1, 1000)) AS a",
		"BEGIN; DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT * FROM $f() AS a; FETCH LAST FROM c; FETCH FIRST FROM c; COMMIT; FETCH ALL FROM c; CLOSE c",
		"CREATE TEMP TABLE a AS SELECT $f() AS b; CREATE INDEX ON a ((b IS NULL)); CREATE INDEX ON a (($f() IS NULL)); DROP TABLE a",
		"CREATE TEMP TABLE a AS SELECT a FROM $f() AS a; INSERT INTO a SELECT a FROM $f() AS a; DROP TABLE a",
		"CREATE TEMP TABLE a (b text DEFAULT $f()::text); INSERT INTO a DEFAULT VALUES; DROP TABLE a",
		"CREATE TEMP TABLE a (b int); CREATE TRIGGER t BEFORE INSERT ON a EXECUTE FUNCTION $f(); DROP TABLE a",
		"PREPARE p AS SELECT $f(); EXECUTE p; EXECUTE p; DEALLOCATE p",
		"SET default_transaction_read_only = on; SELECT $f(); RESET default_transaction_read_only",
		"DO \$\$ DECLARE r record; BEGIN FOR r IN SELECT * FROM $f() AS a LOOP EXIT; END LOOP; END \$\$")
	{
		$odd .= "$call;\nDROP TABLE IF EXISTS a;\nSELECT 'alive';\n";
	}
}
($ret, $stdout, $stderr) = $node->psql('postgres', "\\set VERBOSITY verbose\n$odd", on_error_stop => 0);
is(scalar(() = $stdout =~ /^alive$/mg), scalar(() = $odd =~ /alive/g), 'odd calls leave the session alive');
my %codes = map { $_ => 1 } $stderr =~ /(?:ERROR|FATAL|PANIC): +(\w{5}):/g;
my @unexpected = grep { !/^(0A000|42\w{3}|22P02)$/ } keys %codes;
is("@unexpected", '', 'and end in a result or in errors of grammar and types')
  or diag(join "\n", grep { /@{[join '|', @unexpected]}/ } split /\n/, $stderr);

# Of what others do nothing is told.
$node->safe_psql('postgres', q{
	CREATE ROLE keeper LOGIN; CREATE ROLE peeper LOGIN;
	GRANT CREATE ON SCHEMA public TO keeper});
my $keeper = $node->background_psql('postgres', on_error_stop => 0, extra_params => [ '-U', 'keeper' ]);
$keeper->query_safe(q{
	SET search_path = public; SET sift.memory_limit = '10MB'; SET application_name = 'secret';
	CREATE FUNCTION secret() RETURNS int LANGUAGE sql AS $$SELECT length('secret') $$;
	PREPARE secret AS SELECT 'secret', secret();
	EXECUTE secret;
	DECLARE secret CURSOR WITH HOLD FOR SELECT 'secret' FROM generate_series(1, 1000)});
$keeper->query(q{SELECT length(repeat('secret', 5000000))});
like($keeper->{stderr}, qr/out of memory/, 'a statement with a secret is refused');
my $views = join ' UNION ALL ', map { "SELECT v::text FROM public.$_ AS v" } split /\n/,
	$node->safe_psql('postgres', q{SELECT relname FROM pg_class WHERE relkind = 'v' AND relname LIKE 'sift\_%'});
like($node->safe_psql('postgres', $views), qr/keeper/, 'a superuser sees whose session it was');
unlike($node->safe_psql('postgres', $views), qr/secret/i, 'and no text');
unlike($node->safe_psql('postgres', $views, extra_params => [ '-U', 'peeper' ]), qr/secret|keeper/i, 'another user neither');
is($node->safe_psql('postgres', q{SELECT count(*) FROM public.sift_memory_refusals WHERE top_contexts IS NOT NULL OR queryid IS NOT NULL OR context_name IS NOT NULL},
	extra_params => [ '-U', 'peeper' ]), 0, 'nor what others were refused');
$keeper->quit;

# Rows are whole while sessions begin and end: each user has a database and a limit of his own.
$node->safe_psql('postgres', q{
	CREATE ROLE a LOGIN; ALTER ROLE a SET sift.memory_limit = '111MB'; CREATE DATABASE a;
	CREATE ROLE b LOGIN; ALTER ROLE b SET sift.memory_limit = '222MB'; CREATE DATABASE b});
$node->safe_psql('postgres', q{
	CREATE TABLE public.done (usename name);
	CREATE FUNCTION public.watch(OUT rows int, OUT torn text) LANGUAGE plpgsql AS $$
	DECLARE r record;
	BEGIN
		rows := 0;
		WHILE (SELECT count(*) FROM public.done) < 2 LOOP
			PERFORM pg_stat_clear_snapshot();
			FOR r IN SELECT * FROM public.sift_memory_usage_backends WHERE usename IN ('a', 'b') LOOP
				rows := rows + 1;
				IF r.datname <> r.usename OR r.limit_bytes <> (CASE r.usename WHEN 'a' THEN 111 ELSE 222 END) * 1024 * 1024
					OR r.backend_type <> 'client backend' OR r.charged_bytes NOT BETWEEN 0 AND 30000000
					OR r.peak_bytes NOT BETWEEN 0 AND 30000000 OR r.refusals <> 0 OR r.waived_bytes NOT BETWEEN 0 AND 10000000
					OR least(r.row_bytes, r.batch_bytes, r.large_bytes, r.idle_bytes, r.server_bytes, r.free_heap_bytes) < 0
				THEN torn := r; END IF;
			END LOOP;
		END LOOP;
	END$$});
my $script = $node->basedir . '/one.sql';
append_to_file($script, "SELECT sum(i), pg_sleep(0.02) FROM generate_series(1, 1000) AS i;\n");
my %out;
my @runs = map {
	my $connection = '-h ' . $node->host . ' -p ' . $node->port;
	IPC::Run::start([ 'sh', '-c', "pgbench -n -C -c 25 -t 40 -f $script $connection -U $_ $_ 2>&1;
		psql -Xqc \"INSERT INTO public.done VALUES ('$_')\" $connection postgres" ], '>', \$out{$_})
} qw(a b);
my ($rows, $torn) = split /\|/, $node->safe_psql('postgres', 'SELECT * FROM public.watch()'), 2;
$_->finish foreach @runs;
like($out{$_}, qr{processed: 1000/1000}, "all sessions of $_ have worked") foreach qw(a b);
cmp_ok($rows, '>', 1000, 'rows of these sessions were seen');
is($torn, '', 'and were whole');
is($node->safe_psql('postgres', q{SELECT count(*) FROM public.sift_memory_usage_backends WHERE usename IN ('a', 'b')}), 0, 'none is left');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal/, 'no process has died');

done_testing();
