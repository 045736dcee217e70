# Which statement takes the memory.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $MB = 1024 * 1024;
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
# pg_stat_statements, wherever it comes, takes the ids of utility statements away
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'sift, pg_stat_statements'
pg_stat_statements.track = 'all'
sift.max_statements = 100
jit = off
autovacuum = off
work_mem = '1GB'
maintenance_work_mem = '1GB'
restart_after_crash = on
});
$node->start;
$node->safe_psql('postgres', q{CREATE EXTENSION sift; CREATE EXTENSION pg_stat_statements;
	CREATE TABLE t AS SELECT i, repeat('x', 100) AS filler FROM generate_series(1, 100000) i; ANALYZE t});
my $version = $node->safe_psql('postgres', 'SHOW server_version_num');

# A statement that needs so many MB, which are known at run time only; a table of
# that name tells it apart from others.
my @names = qw(simple prepared failing refused terminated before_it within_it after_it beside_cursor turn_a turn_b inner_a inner_b
  outer_top outer_all outer_none alone together too_much piped_a piped_b piped_c session_peak stays lost logged not_logged);
$node->safe_psql('postgres', join ';', map { "CREATE TABLE $_ AS SELECT 1 AS one" } @names);
my %statement;
sub need { return $statement{ $_[0] } = "SELECT length(repeat('x', n * 1048576)) FROM generate_series($_[1], $_[1]) AS n, $_[0]" }

# One that fails when it has it; and others.
sub failing { return $statement{ $_[0] } = "SELECT 1 / (length(repeat('x', n * 1048576)) - n * 1048576) FROM generate_series($_[1], $_[1]) AS n, $_[0]" }
sub sorted { return $statement{ $_[0] } = "SELECT repeat('x', 1000) FROM generate_series(1, $_[1]) AS i, $_[0] ORDER BY i DESC" }
sub joined { return $statement{ $_[0] } = "SELECT count(*) FROM t AS a JOIN t AS b USING (i, filler), $_[0]" }

# What is kept of a statement: of the one that was made for that name, by the id
# that EXPLAIN tells, or of the one that pg_stat_statements has a text for that is like that.
sub kept
{
	my ($which, $columns) = @_;
	my $ids = "(SELECT queryid FROM pg_stat_statements WHERE query LIKE '$which')";
	if (defined $statement{$which})
	{
		$node->safe_psql('postgres', "SET sift.track_statements = 'none'; EXPLAIN (VERBOSE) $statement{$which}") =~ /Query Identifier: (-?\d+)/ or die;
		$ids = "($1)";
	}
	return $node->safe_psql('postgres', "SET sift.track_statements = 'none'; SELECT $columns FROM sift_memory_usage_statements WHERE queryid IN $ids");
}

# Calls, and the peaks in whole MB, the most, on the mean, and the last.
sub peaks { return kept($_[0], 'calls, max_peak_bytes >> 20, mean_peak_bytes >> 20, last_peak_bytes >> 20') }
sub forget { $node->safe_psql('postgres', 'SELECT sift_reset_statements(), pg_stat_statements_reset()') }

# --- one statement
forget();
$node->safe_psql('postgres', need('simple', 50));
is(peaks('simple'), '1|50|50|50', 'the peak of a statement');
$node->safe_psql('postgres', need('simple', 10));
is(peaks('simple'), '2|50|30|10', 'the most, the mean, the last');
$node->safe_psql('postgres', q{SELECT length(repeat('planned', 5 * 1048576))});
is(kept('SELECT length(repeat($1, $2 * $3))', 'calls, max_peak_bytes >> 20'), '1|70', 'planning counts');
$node->safe_psql('postgres', 'CREATE INDEX by_filler ON t (filler, i)');
is(kept('CREATE INDEX%', 'calls, toplevel, max_peak_bytes > 13000000'), '1|t|t', 'a utility statement, its workers with it');
$node->safe_psql('postgres', 'PREPARE p AS ' . need('prepared', 20) . '; EXECUTE p; EXECUTE p');
is(peaks('prepared'), '2|20|20|20', 'EXECUTE counts for what is executed');

# --- statements that fail
forget();
$node->psql('postgres', failing("failing", 30));
is(peaks('failing'), '1|30|30|30', 'one that fails');
$node->psql('postgres', "SET sift.memory_limit = '20MB'; " . need('refused', 60));
is(kept('refused', 'calls, refusals, max_peak_bytes < 20971520'), '1|1|t', 'one that is refused');
$statement{terminated} = need('terminated', 15) =~ s/ FROM/, pg_terminate_backend(pg_backend_pid()), pg_sleep(60) FROM/r;
$node->psql('postgres', $statement{terminated});
is(peaks('terminated'), '1|15|15|15', 'one that is terminated');

# --- savepoints: what fails is neither lost nor mixed up with what comes after
forget();
$node->psql('postgres', 'BEGIN; ' . need('before_it', 5) . '; SAVEPOINT s; ' . failing('within_it', 40) . '; ROLLBACK TO s; ' . need('after_it', 7) . '; COMMIT', on_error_stop => 0);
is(peaks('before_it') . ' ' . peaks('within_it') . ' ' . peaks('after_it'), '1|5|5|5 1|40|40|40 1|7|7|7', 'savepoints');

# --- cursors that are open across statements, and run by turns
forget();
$node->safe_psql('postgres', 'BEGIN; DECLARE a CURSOR FOR ' . sorted('simple', 20000) . '; FETCH 1 FROM a; '
	  . need('beside_cursor', 3) . '; FETCH 2 FROM a; COMMIT');
is(kept('FETCH%', 'sum(calls), max(max_peak_bytes) > 20000000'), '2|t', 'FETCH takes what its cursor takes');
is(peaks('beside_cursor'), '1|3|3|3', 'another statement does not, though the cursor holds memory');
$node->safe_psql('postgres', "SET sift.track_statements = 'all';
	DO \$\$ DECLARE a refcursor; b refcursor; r record; BEGIN
		OPEN a FOR " . sorted('turn_a', 40000) . '; FETCH a INTO r;
		OPEN b FOR ' . sorted('turn_b', 10000) . '; FETCH b INTO r;
		FOR i IN 1..10 LOOP FETCH a INTO r; FETCH b INTO r; END LOOP;
	END $$');
is(kept('turn_a', 'toplevel, calls, max_peak_bytes BETWEEN 40000000 AND 59000000'), 'f|1|t', 'a cursor that is run by turns');
is(kept('turn_b', 'toplevel, calls, max_peak_bytes BETWEEN 10000000 AND 25000000'), 'f|1|t', 'and the other one');

# --- PL/pgSQL
forget();
$node->safe_psql('postgres', "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS \$\$ DECLARE x int; BEGIN
		EXECUTE '" . (need('inner_a', 12) =~ s/'/''/gr) . "' INTO x;
		BEGIN " . (failing('inner_b', 25) =~ s/ FROM/ INTO x FROM/r) . ";
		EXCEPTION WHEN division_by_zero THEN NULL; END;
		RETURN x; END \$\$");
$statement{$_} = "SELECT f() FROM $_" for qw(outer_top outer_all outer_none);
$node->safe_psql('postgres', $statement{outer_top});
is(peaks('outer_top'), '1|25|25|25', 'nested statements are in the peak of the one that they are part of');
is(kept('inner_a', 'count(*)') + kept('inner_b', 'count(*)'), 0, 'and not by themselves');
$node->safe_psql('postgres', "SET sift.track_statements = 'all'; $statement{outer_all}");
is(kept('outer_all', 'calls, toplevel, max_peak_bytes >> 20'), '1|t|25', 'with "all", the outer statement');
is(kept('inner_a', 'calls, toplevel, max_peak_bytes >> 20'), '1|f|12', 'one within');
is(kept('inner_b', 'calls, toplevel, max_peak_bytes >> 20'), '1|f|25', 'one within that fails, and is caught');
$node->safe_psql('postgres', "SET sift.track_statements = 'none'; $statement{outer_none}");
is(kept('outer_none', 'count(*)'), 0, 'with "none", nothing');

# --- triggers, immediate and deferred: of the statement that fires them
forget();
$node->safe_psql('postgres', q{CREATE TABLE fires (i int);
	CREATE FUNCTION takes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM length(repeat('x', new.i * 1048576)); RETURN new; END $$;
	CREATE TRIGGER after AFTER INSERT ON fires FOR EACH ROW EXECUTE FUNCTION takes();
	INSERT INTO fires SELECT 18});
is(kept('INSERT INTO fires%', 'calls, max_peak_bytes > 18874368'), '1|t', 'triggers');

# --- parallel workers: each hashes the whole table
forget();
my $workers = q{SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET enable_parallel_hash = off;
	SET enable_mergejoin = off; SET enable_nestloop = off; };
$node->safe_psql('postgres', 'SET max_parallel_workers_per_gather = 0; SET enable_mergejoin = off; SET enable_nestloop = off; ' . joined('alone'));
$node->safe_psql('postgres', "$workers SET max_parallel_workers_per_gather = 2; " . joined('together'));
my $alone = kept('alone', 'max_peak_bytes');
cmp_ok(kept('together', 'max_peak_bytes'), '>', 2.5 * $alone, 'workers count with their leader');
cmp_ok(kept('together', 'max_peak_bytes'), '<', 3 * $alone + 3 * 4 * $MB, 'and once');
is(kept('together', 'calls'), 1, 'as one call');
$node->psql('postgres', "$workers SET max_parallel_workers_per_gather = 2; SET sift.memory_limit = '30MB'; " . joined('too_much'));
is(kept('too_much', 'calls, refusals > 0, max_peak_bytes < 36700160'), '1|t|t', 'refused in a worker or in the leader');

# --- pipelining
forget();
my $script = $node->basedir . '/pipeline.sql';
append_to_file($script, join("\n", '\startpipeline', (map { need(@$_) . ';' } [ 'piped_a', 30 ], [ 'piped_b', 4 ], [ 'piped_c', 11 ]), '\endpipeline') . "\n");
$node->command_ok([ 'pgbench', '-n', '-M', 'prepared', '-t', '3', '-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ], 'statements in a pipeline');
is(peaks('piped_a') . ' ' . peaks('piped_b') . ' ' . peaks('piped_c'), '3|30|30|30 3|4|4|4 3|11|11|11', 'are told apart');

# --- peaks beside what the kernel says: a cursor stands still where it holds most
forget();
for my $case ([ 'sort', "SELECT repeat('x', 999 + i % 2) FROM generate_series(1, 200000) i ORDER BY -i" ],
	[ 'window', "SELECT count(y) OVER (), y FROM (SELECT repeat('x', 999 + i % 2) AS y FROM generate_series(1, 200000) i OFFSET 0) AS s" ],
	[ 'aggregate', "SELECT i, max(repeat('x', 999 + i % 2)) FROM generate_series(1, 200000) i GROUP BY i" ])
{
	my ($name, $query) = @$case;
	my $session = $node->background_psql('postgres');
	my $rss = q{SELECT rss_anon_bytes FROM sift_memory_usage_backends WHERE pid = pg_backend_pid()};
	$session->query_safe('SET enable_nestloop = on; BEGIN; DECLARE warm CURSOR FOR SELECT count(*) FROM pg_class; FETCH 1 FROM warm; ' . $rss);
	$session->query_safe("DECLARE c CURSOR FOR $query");
	my $before = $session->query_safe($rss);
	$session->query_safe('FETCH 1 FROM c');
	my $peak = $session->query_safe('SELECT peak_bytes FROM sift_last_statement()');
	my $sampled = $session->query_safe($rss) - $before;
	$session->quit;
	cmp_ok($peak, '>', 64 * $MB, "$name is large");
	cmp_ok(abs($peak / $sampled - 1), '<', 0.05, "$name: the peak is what the kernel says") or diag("$peak, $sampled");
}

# --- the statement before
is($node->safe_psql('postgres', need('simple', 9) . "; SELECT peak_bytes >> 20, refusals, waived_bytes FROM sift_last_statement();
	SELECT peak_bytes < 1048576 FROM sift_last_statement()"), join("\n", 9 * $MB, '9|0|0', 't'), 'sift_last_statement()');
is($node->safe_psql('postgres', 'SELECT peak_bytes IS NULL FROM sift_last_statement()'), 't', 'there is none before the first');

# --- sift_reset_peak() does not take it from a statement
forget();
$node->safe_psql('postgres', "DO \$\$ BEGIN PERFORM length(repeat('x', 22 * 1048576 + (random() * 0)::int)); PERFORM sift_reset_peak(); END \$\$");
is(kept('DO%', 'max_peak_bytes >> 20'), 22, 'peaks that begin again leave a statement its own');
is($node->safe_psql('postgres', need('session_peak', 33) . '; SELECT peak_bytes >> 20 >= 33 FROM sift_memory_usage_backends WHERE pid = pg_backend_pid()'), 33 * $MB . "\nt", 'nor do statements take it from the session');

# --- the same keys as in pg_stat_statements, which comes first or last
for my $order ('sift, pg_stat_statements', 'pg_stat_statements, sift')
{
	$node->append_conf('postgresql.conf', "shared_preload_libraries = '$order'\nsift.track_statements = 'all'\nsift.max_statements = 5000");
	$node->restart;
	forget();
	$node->safe_psql('postgres', "BEGIN; SELECT f(); SAVEPOINT s; DECLARE c CURSOR FOR SELECT 1; FETCH c; CLOSE c; COMMIT; COPY (SELECT i FROM t LIMIT 1) TO '/dev/null';
		PREPARE q AS SELECT 2; EXECUTE q; EXPLAIN (ANALYZE) SELECT i FROM t; CREATE TABLE u AS SELECT 3; DO 'BEGIN PERFORM 4; END'; VACUUM u; INSERT INTO fires VALUES (1); DROP TABLE u; ANALYZE t; SHOW work_mem; SET work_mem = '1MB'");
	my $keys = $node->safe_psql('postgres', q{SELECT p.toplevel, p.query FROM pg_stat_statements AS p LEFT JOIN sift_memory_usage_statements AS s USING (userid, dbid, queryid, toplevel)
		WHERE s.calls IS NULL AND p.query !~ 'reset|sift_memory'});
	is($keys, '', "all that pg_stat_statements has, with $order");
}

# --- kept over a restart, not over a crash
forget();
$node->safe_psql('postgres', need('stays', 6));
$node->restart;
is(peaks('stays'), '1|6|6|6', 'kept over a clean restart');
my $file = $node->data_dir . '/pg_stat/sift_statements.stat';
ok(!-e $file, 'its file is gone when it is read');
$node->stop;
ok(-e $file, 'it is written when the server is shut down');
open my $handle, '+<', $file or die;
truncate $handle, 60;
close $handle;
$node->start;
like(slurp_file($node->logfile), qr/ignoring invalid data in file "pg_stat\/sift_statements\.stat"/, 'a file that is damaged is told of');
ok(!-e $file, 'and removed');
my $victim = $node->background_psql('postgres', on_error_stop => 0);
$victim->query_safe(need('lost', 6));
kill 'KILL', $victim->query_safe('SELECT pg_backend_pid()');
$node->poll_query_until('postgres', "SELECT pg_postmaster_start_time() < now() AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%FROM generate_series%AS n, lost')");
is(peaks('lost'), '', 'nothing is kept over a crash');

# --- never more than sift.max_statements, and the least used go
$node->append_conf('postgresql.conf', 'sift.max_statements = 100');
$node->restart;
forget();
my $often = join(';', map { "SELECT FROM $names[$_]" } 1 .. 10);
$node->safe_psql('postgres', $often) for 1 .. 20;
$node->safe_psql('postgres', join(';', map { 'SELECT ' . join('+', (1) x $_) } 1 .. 400));
is($node->safe_psql('postgres', 'SELECT count(*) BETWEEN 99 AND 100 FROM sift_memory_usage_statements'), 't', 'full, and no more');
is(kept('SELECT FROM %', 'count(*), min(calls)'), '10|20', 'what is used often stays');
$node->stop;
$node->append_conf('postgresql.conf', 'sift.max_statements = 200');
$node->start;
is($node->safe_psql('postgres', 'SELECT count(*) BETWEEN 99 AND 102 FROM sift_memory_usage_statements'), 't', 'the table may grow');

# --- EXPLAIN
my ($ret, $stdout, $stderr) = $node->psql('postgres', "EXPLAIN (ANALYZE, SIFT, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT length(repeat('x', n * 1048576)) FROM generate_series(16, 16) n");
if ($version >= 180000)
{
	like($stdout, qr/^Peak Memory: 16\d{3} kB$/m, 'EXPLAIN (ANALYZE, SIFT)');
	$stderr = ($node->psql('postgres', 'EXPLAIN (SIFT) SELECT 1'))[2];
	like($stderr, qr/EXPLAIN option SIFT requires ANALYZE/, 'it takes ANALYZE');
	unlike($node->safe_psql('postgres', 'EXPLAIN (ANALYZE, SIFT off) SELECT 1'), qr/Peak/, 'off');
	like($node->safe_psql('postgres', "SET sift.track_statements = 'none'; EXPLAIN (ANALYZE, SIFT, FORMAT json) SELECT 1"), qr/"Peak Memory": \d+/, 'for whoever asks');
}
else
{
	like($stderr, qr/unrecognized EXPLAIN option "sift"/, 'before 18 EXPLAIN has no options of extensions');
}

# --- the log
$node->append_conf('postgresql.conf', "sift.log_min_peak = '10MB'");
$node->reload;
my $from = -s $node->logfile;
$node->safe_psql('postgres', need('logged', 14) . '; ' . need('not_logged', 8));
like(slurp_file($node->logfile, $from), qr/LOG:  memory of statement: peak 14\d{3} kB, no limit\n.*DETAIL:  Query identifier: -?\d+\. Largest contexts: "\w+" \d+ kB, .*\n.*STATEMENT:  SELECT .*, logged/, 'a statement whose peak is large is logged');
unlike(slurp_file($node->logfile, $from), qr/memory of statement.*\n.*\n.*not_logged/, 'another one is not');
$from = -s $node->logfile;
$node->psql('postgres', "SET sift.memory_limit = '64MB'; " . sorted('logged', 200000));
my $log = slurp_file($node->logfile, $from);
is(scalar(() = $log =~ /LOG:  statement has passed 80% of its memory limit/g), 1, 'one that comes near its limit is logged once') or diag($log);
is(scalar(() = $log =~ /LOG:  memory of statement: peak \d+ kB, limit 65536 kB/g), 1, 'and its peak when it fails');
my ($held) = $log =~ /HINT:  sift\.memory_limit is 65536 kB; held are (\d+) kB/;
cmp_ok($held, '<=', 65536, 'logging takes nothing over the limit');
like($log, qr/Largest contexts: "(Caller|Tuple[Ss]ort)[^"]*" \d{5} kB/, 'with what it held then');
$from = -s $node->logfile;
$node->psql('postgres', "SET sift.memory_limit = '30MB'; $workers SET max_parallel_workers_per_gather = 2; SELECT count(*) FROM t AS a JOIN t AS b USING (i, filler)");
is(scalar(() = slurp_file($node->logfile, $from) =~ /LOG:  statement has passed 80%/g), 1, 'once a session, though it has workers');

$node->stop;

# --- one session that has loaded the library
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->start;
is($node->safe_psql('postgres', "LOAD 'sift'; " . need('simple', 9) . '; SELECT peak_bytes >> 20 FROM sift_last_statement()'), 9 * $MB . "\n9", 'the last statement where it is loaded into a session');
like(($node->psql('postgres', "LOAD 'sift'; SELECT * FROM sift_memory_usage_statements"))[2], qr/sift must be loaded via "shared_preload_libraries"/, 'but no statements are kept');
$node->stop;
done_testing();
