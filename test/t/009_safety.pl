# Statements and situations that a simpler rule of refusing broke servers with:
# each ends in a clean error or goes through, and the server, the other
# sessions and the locks stay whole.
#
# SIFT_TEST_EVERY: of the first 100 requests of a statement that may be refused
# each so-manieth is (default 5).
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 'logical');
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'sift'
max_prepared_transactions = 5
autovacuum = off
max_locks_per_transaction = 2000
wal_level = logical
jit = off
log_min_messages = log
});
$node->start;
$node->safe_psql('postgres', q{CREATE EXTENSION sift; CREATE EXTENSION sift_test;
	CREATE TABLE t AS SELECT i, repeat('x', 100) AS x FROM generate_series(1, 50000) i});

sub run
{
	my ($sql, %options) = @_;
	my ($ret, $stdout, $stderr) = $node->psql('postgres', "\\set VERBOSITY sqlstate\n$sql", on_error_stop => 0, %options);
	return ($stdout, $stderr);
}

# Run it; only the given errors may come, the same session goes on, others
# answer, and no lock is without an owner.
sub survives
{
	my ($name, $sql, $errors) = @_;
	my ($stdout, $stderr) = run("$sql;\nROLLBACK;\nSET sift.memory_limit = -1;\nSELECT 'alive';\n");
	my @unexpected = grep { !/ERROR:  ($errors)$/ } grep { /ERROR|FATAL|PANIC|server closed|connection/ } split /\n/, $stderr;
	is(join("\n", @unexpected), '', $name);
	like($stdout, qr/alive$/, "$name: the session goes on");
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_locks l WHERE l.pid IS NOT NULL AND NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = l.pid)"),
		0, "$name: no lock without an owner");
	return ($stdout, $stderr);
}

my $oom = '53200|57014|25P02';

# Handlers within handlers, each of which copies an error.
sub nested
{
	my ($depth, $body) = @_;
	return $depth == 0 ? $body : "BEGIN " . nested($depth - 1, $body)
		. " EXCEPTION WHEN others THEN EXECUTE format('SELECT length(%L)', repeat('y', n) || SQLERRM); END;";
}
for my $n (100_000, 2_000_000)
{
	survives("handlers within handlers with strings of $n bytes", qq{SET sift.memory_limit = '8MB';
		DO \$\$ DECLARE n int := $n; a text[]; BEGIN
		FOR k IN 1..30 LOOP
			} . nested(6, q{FOR i IN 1..1000 LOOP a[i] := repeat('x', 100000); END LOOP;}) . qq{
		END LOOP; END \$\$}, $oom);
}

# COMMIT PREPARED of many dropped tables.
for my $tables (1500, 8000)
{
	$node->safe_psql('postgres', "DO \$\$ BEGIN FOR i IN 1..$tables LOOP EXECUTE format('CREATE TABLE d%s ()', i); END LOOP; END \$\$");
	$node->safe_psql('postgres', "BEGIN; DO \$\$ BEGIN FOR i IN 1..$tables LOOP EXECUTE format('DROP TABLE d%s', i); END LOOP; END \$\$; PREPARE TRANSACTION 'drop'");
	survives("COMMIT PREPARED of $tables dropped tables", "SET sift.memory_limit = '1MB'; COMMIT PREPARED 'drop'; SET sift.memory_limit = 0; COMMIT PREPARED 'drop'", "$oom|42704");
	run("SET sift.memory_limit = -1; COMMIT PREPARED 'drop'");
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_prepared_xacts"), 0, 'it is committed');
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname LIKE 'd_%' AND relkind = 'r' AND relnamespace = 'public'::regnamespace"), 0, 'the tables are gone');
}
survives('two-phase commit at the limit', q{SET sift.memory_limit = '1MB'; BEGIN; INSERT INTO t SELECT 0, 'y' FROM generate_series(1, 100); PREPARE TRANSACTION 'p'; ROLLBACK PREPARED 'p'}, "$oom|42704|25P01");
run("ROLLBACK PREPARED 'p'");

# An idle listener at its limit that is notified.
my $listener = $node->background_psql('postgres', on_error_stop => 0);
$listener->query('LISTEN news');
$listener->query("SET sift.memory_limit = 0");
$node->safe_psql('postgres', "SELECT count(pg_notify('news', repeat('n', 7000) || i)) FROM generate_series(1, 300) i");
is($listener->query("SELECT 'heard'") =~ /heard/ ? 1 : 0, 1, 'an idle listener at its limit is notified');
$listener->query('SET sift.memory_limit = -1');
$listener->quit;

# A session idle in a transaction that catches up with what others have done to
# the tables of its cursor.
$node->safe_psql('postgres', 'CREATE TABLE wide (' . join(',', map { "c$_ int" } 1 .. 1500) . ')');
my $idle = $node->background_psql('postgres', on_error_stop => 0);
$idle->query('BEGIN; DECLARE c CURSOR FOR SELECT * FROM wide; FETCH 1 FROM c; SET sift.memory_limit = 0');
for (1 .. 3)
{
	$node->safe_psql('postgres', 'GRANT SELECT ON wide TO PUBLIC; REVOKE SELECT ON wide FROM PUBLIC;
		DO $$ BEGIN FOR i IN 1..120 LOOP CREATE TABLE zz (a int PRIMARY KEY, b text); DROP TABLE zz; END LOOP; END $$');
}
is($idle->query("ROLLBACK; SET sift.memory_limit = -1; SELECT 'alive'") =~ /alive/ ? 1 : 0, 1, 'an idle transaction at its limit catches up');
$idle->quit;

# The first of something in a session.
survives('the first temporary table', q{SET temp_buffers = '64MB'; SET sift.memory_limit = '1MB';
	CREATE TEMP TABLE tt AS SELECT i, repeat('x', 500) FROM generate_series(1, 50000) i; SELECT count(*) FROM tt;
	SET sift.memory_limit = '100MB'; CREATE TEMP TABLE IF NOT EXISTS tt AS SELECT 1 AS i; SELECT count(*) FROM tt}, "$oom|42P01");
my $firsts = 0;
for my $i (1 .. 300)
{
	my $limit = 500 + $i * 5;
	my ($stdout, $stderr) = run("SET sift.memory_limit = '${limit}kB'; DO \$\$ DECLARE x text := repeat('x', 70000); BEGIN PERFORM length(x); END \$\$; SET sift.memory_limit = -1; DO \$\$ BEGIN RAISE NOTICE 'alive'; END \$\$; SELECT 1");
	$firsts++ if $stdout eq '1' && $stderr !~ /FATAL|PANIC|server closed/;
}
is($firsts, 300, 'the first PL/pgSQL statement of a session at its limit, 300 times');

# Giants.
my $giant = $node->basedir . '/giant.sql';
append_to_file($giant, "SET sift.memory_limit = '64MB';\nSELECT length('" . 'x' x 300_000_000 . "');\n\\o " . $node->basedir . "/out\nSELECT peak_bytes < 100000000 FROM sift_memory_usage WHERE kind = 'server';\nBEGIN;\nSELECT length('" . 'x' x 100_000_000 . "');\nROLLBACK;\nSELECT 'alive';\n");
$node->psql('postgres', '', extra_params => [ '-f', $giant ], on_error_stop => 0);
is(slurp_file($node->basedir . '/out'), "t\nalive\n", 'a query text of 300 MB is refused before it is read');
survives('a RAISE with 300 MB', q{SET sift.memory_limit = '64MB'; DO $$ BEGIN RAISE EXCEPTION '%', repeat('x', 300000000); END $$;
	SET client_min_messages = error; DO $$ DECLARE m text := repeat('x', 40000000); BEGIN RAISE EXCEPTION '%', m; END $$}, "$oom|P0001");

# Reclaimers that change a row store while one of its rows is pinned.
survives('pins of rows that a reclaimer removes, and unpins', 'SELECT sift_test_store_pins_pressure()' . ';SELECT sift_test_store_pins_pressure()' x 19, 'none');

# Many of something.
survives('a loop of a thousand caught refusals', q{SET sift.memory_limit = '16MB'; DO $$ BEGIN FOR i IN 1..1000 LOOP
	BEGIN PERFORM repeat('x', 100000000); EXCEPTION WHEN others THEN NULL; END; END LOOP; END $$}, $oom);
survives('ROLLBACK of 40,000 savepoints', "BEGIN; SET LOCAL sift.memory_limit = '16MB';\n\\o /dev/null\nSELECT format('SAVEPOINT s%s', i) FROM generate_series(1, 40000) i \\gexec\n\\o\nROLLBACK;
	SET sift.memory_limit = '16MB'; BEGIN;\n\\o /dev/null\nSELECT format('SAVEPOINT s%s', i) FROM generate_series(1, 40000) i \\gexec\n\\o\nROLLBACK", $oom);

# Messages that are pipelined in one transaction.
SKIP:
{
	my $pgbench = $node->basedir . '/pipeline.sql';
	append_to_file($pgbench, "\\startpipeline\nBEGIN;\n" . join('', map { "SELECT $_ " . join('', map { "+ $_" } 1 .. 300) . ";\n" } 1 .. 500) . "COMMIT;\n\\endpipeline\n");
	local $ENV{PGOPTIONS} = '-c sift.memory_limit=8MB';
	my ($out, $err);
	IPC::Run::run([ 'pgbench', '-n', '-c', '2', '-t', '3', '-M', 'prepared', '-f', $pgbench, '-h', $node->host, '-p', $node->port, 'postgres' ], '>', \$out, '2>', \$err);
	like($out . $err, qr/out of memory|number of transactions actually processed: 6/, 'pipelined messages end cleanly');
}

# Time zones: right results afterwards, and no crash.
my $zones = q{SELECT count(*) > 100 FROM pg_timezone_names; SELECT count(*) > 100 FROM pg_timezone_abbrevs;
	SET timezone = 'America/New_York'; SELECT '2020-07-01 12:00+00'::timestamptz; SET timezone = 'Asia/Kathmandu'; SELECT '2020-07-01 12:00+00'::timestamptz;
	SELECT '2020-07-01 12:00+00'::timestamptz AT TIME ZONE 'Australia/Lord_Howe';};
my ($stdout) = survives('time zones', "SET sift.memory_limit = '2MB'; $zones SET sift.memory_limit = 0; $zones SET sift.memory_limit = -1; \\echo after\n$zones", $oom);
like($stdout, qr/after\nt\nt\n2020-07-01 08:00:00-04\n2020-07-01 17:45:00\+05:45\n2020-07-01 22:30:00/, 'time zones are right after a limit of 2 MB');

# The end of transactions.
survives('deferred triggers at COMMIT', q{CREATE TABLE r (a int PRIMARY KEY, b int REFERENCES r DEFERRABLE INITIALLY DEFERRED);
	SET sift.memory_limit = '8MB'; BEGIN; INSERT INTO r SELECT i, i FROM generate_series(1, 30000) i; SET LOCAL sift.memory_limit = 0; COMMIT;
	SET sift.memory_limit = -1; DROP TABLE r}, $oom);
survives('a procedure that commits in a loop', q{CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ DECLARE a text; BEGIN FOR i IN 1..50 LOOP
		INSERT INTO t VALUES (-i, 'p'); a := repeat('x', 1000000 * i); COMMIT; END LOOP; END $$;
	SET sift.memory_limit = '10MB'; CALL p(); SET sift.memory_limit = -1; DROP PROCEDURE p}, $oom);
survives('a WITH HOLD cursor at COMMIT', q{SET work_mem = '64MB'; BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT i, x || x FROM t; SET LOCAL sift.memory_limit = '4MB'; COMMIT;
	SET sift.memory_limit = '4MB'; BEGIN; DECLARE h2 CURSOR WITH HOLD FOR SELECT i, x || x FROM t; COMMIT; CLOSE ALL}, $oom);
survives('COMMIT of many notifications and tables', q{SET sift.memory_limit = '3MB'; BEGIN; DO $$ BEGIN FOR i IN 1..500 LOOP EXECUTE format('CREATE TABLE n%s (a int)', i); PERFORM pg_notify('x', i::text); END LOOP; END $$; SET LOCAL sift.memory_limit = 0; COMMIT;
	SET sift.memory_limit = 0; BEGIN; COMMIT}, $oom);
survives('an error inside an error', q{SET sift.memory_limit = '6MB'; DO $$ BEGIN BEGIN PERFORM repeat('x', 50000000); EXCEPTION WHEN others THEN
	RAISE EXCEPTION '% %', SQLERRM, repeat('z', 4000000) USING DETAIL = repeat('d', 3000000), HINT = repeat('h', 3000000); END; END $$;
	SELECT (repeat('[', 4000000))::json; SELECT repeat('x', 3000000)::int}, "$oom|P0001|22P02|54001");

# REINDEX and CREATE INDEX CONCURRENTLY.
survives('REINDEX and CREATE INDEX CONCURRENTLY', q{SET maintenance_work_mem = '64MB'; SET max_parallel_maintenance_workers = 0; SET sift.memory_limit = '4MB';
	CREATE INDEX CONCURRENTLY c1 ON t (i, x); CREATE INDEX c2 ON t (i); REINDEX INDEX CONCURRENTLY c1; REINDEX TABLE t; VACUUM t; ANALYZE t; CLUSTER t USING c2;
	SET sift.memory_limit = -1; DROP INDEX IF EXISTS c1; DROP INDEX IF EXISTS c2}, "$oom|42704|42P01");
is($node->safe_psql('postgres', 'SELECT count(*) > 40000 FROM t'), 't', 'the table is whole');

# A logical slot read by SQL.
survives('a logical slot read by SQL', q{SELECT 1 FROM pg_create_logical_replication_slot('s', 'test_decoding');
	INSERT INTO t SELECT i, repeat('y', 1000) FROM generate_series(1, 20000) i;
	SET sift.memory_limit = '8MB'; SET logical_decoding_work_mem = '64MB'; SELECT count(*) FROM pg_logical_slot_get_changes('s', NULL, NULL);
	SET sift.memory_limit = -1; SELECT count(*) > 0 FROM pg_logical_slot_get_changes('s', NULL, NULL); SELECT pg_drop_replication_slot('s')}, $oom);

# A backend that is cancelled or terminated while it is being refused.
for my $how ('cancel', 'terminate')
{
	for my $wait (1 .. 5)
	{
		my $session = $node->background_psql('postgres', on_error_stop => 0);
		my $pid = $session->query_safe('SELECT pg_backend_pid()');
		$session->query_until(qr/started/, q{\echo started
SET sift.memory_limit = '16MB'; SET client_min_messages = error;
DO $$ BEGIN FOR i IN 1..90 LOOP BEGIN PERFORM array_agg(g) FROM generate_series(1, 3000000) g; EXCEPTION WHEN out_of_memory THEN NULL; END; END LOOP; END $$;
});
		$node->poll_query_until('postgres', "SELECT refusals >= $wait FROM sift_memory_usage_backends WHERE pid = $pid");
		$node->safe_psql('postgres', "SELECT pg_${how}_backend($pid)");
		$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid AND state = 'active'");
		eval { $session->quit };
	}
}
ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'}), 'cancelled and terminated sessions are gone');

# The n-th request that may be refused is, for n up to 100.
my $every = $ENV{SIFT_TEST_EVERY} || 5;
my @statements = (
	'SELECT count(*) FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid', 'SELECT array_agg(i) FROM generate_series(1, 20000) i',
	'SELECT i, count(*) FROM t GROUP BY i LIMIT 1', 'SELECT * FROM t ORDER BY x, i LIMIT 1', 'SELECT string_agg(x, $$,$$) IS NULL FROM t',
	'CREATE TABLE n (a int PRIMARY KEY, b text); DROP TABLE n', 'CREATE INDEX n_i ON t (x); DROP INDEX n_i', 'CREATE TEMP TABLE n AS SELECT * FROM t LIMIT 1000; DROP TABLE n',
	'INSERT INTO t SELECT -1, i::text FROM generate_series(1, 2000) i', 'UPDATE t SET x = x WHERE i < 100', 'DELETE FROM t WHERE i < -5',
	'DO $$ BEGIN PERFORM 1; END $$', 'DO $$ BEGIN BEGIN PERFORM 1/0; EXCEPTION WHEN others THEN PERFORM 2; END; END $$',
	'BEGIN; SAVEPOINT a; INSERT INTO t VALUES (-9); SAVEPOINT b; ROLLBACK TO a; COMMIT', 'BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT * FROM t; COMMIT; CLOSE c',
	'PREPARE n AS SELECT $1::int; EXECUTE n(1); DEALLOCATE n', 'LISTEN n; NOTIFY n; UNLISTEN n', 'ANALYZE t', 'VACUUM t', 'EXPLAIN (ANALYZE, COSTS off) SELECT * FROM t a JOIN t b USING (i)',
	'COPY (SELECT * FROM t LIMIT 1000) TO STDOUT', 'SELECT jsonb_agg(t) IS NULL FROM t', 'BEGIN; INSERT INTO t VALUES (-8); PREPARE TRANSACTION $$n$$; ROLLBACK PREPARED $$n$$',
	'SELECT to_char(now(), $$TMMonth$$), now() AT TIME ZONE $$Asia/Tokyo$$ IS NULL', 'SELECT * FROM pg_timezone_names LIMIT 1', 'SELECT regexp_replace(x, $$(x)+$$, $$y$$) FROM t LIMIT 10',
	'CREATE FUNCTION n(a int) RETURNS int LANGUAGE sql AS $$SELECT $1 + 1$$; SELECT n(1); DROP FUNCTION n', 'WITH RECURSIVE r(a) AS (VALUES (1) UNION ALL SELECT a + 1 FROM r WHERE a < 1000) SELECT count(*) FROM r',
	'REINDEX TABLE pg_temp.none', 'SELECT pg_advisory_lock(7); SELECT pg_advisory_unlock_all()', 'DISCARD ALL');
my $cleanup = "ROLLBACK;\nDROP TABLE IF EXISTS n; DROP INDEX IF EXISTS n_i; DEALLOCATE ALL; CLOSE ALL; DROP FUNCTION IF EXISTS n(int); SELECT pg_advisory_unlock_all() \\g /dev/null\n";
my ($refused, $ended) = (0, 0);
for my $statement (@statements)
{
	my $script = "SET client_min_messages = error;\n";
	$script .= "SELECT sift_test_refuse_charge($_) \\g /dev/null\nSET sift.memory_limit = 0;\n$statement;\nSET sift.memory_limit = -1;\nSELECT sift_test_refuse_charge(0) \\g /dev/null\n$cleanup" for (grep { $_ % $every == 0 } 1 .. 100);
	my ($stdout, $stderr) = run("$script SELECT 'refused', sum(refusals) FROM sift_memory_usage; SELECT 'sift', sum(bytes) FROM sift_memory_usage WHERE kind NOT IN ('server', 'shared');\nSELECT 'end'");
	$refused += $1 if $stdout =~ /^refused\|(\d+)$/m;
	if ($stdout =~ /^sift\|0\nend$/m) { $ended++ } else { diag("$statement: ", substr($stdout, -200), substr($stderr, -500)) }
	run("ROLLBACK PREPARED 'n'");
}
is($ended, scalar @statements, "each ${every}th request refused, up to the 100th, in " . @statements . ' statements: every session goes on');
cmp_ok($refused, '>', 20 * @statements / $every, "$refused requests were refused");
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_locks WHERE pid <> pg_backend_pid()'), 0, 'no lock is left');

unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal|FATAL:  (?!terminating (connection|background worker "parallel worker") due to administrator|connection to client lost)/, 'the server is whole');
$node->stop;
done_testing();
