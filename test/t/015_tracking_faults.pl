# Statements that are tracked and logged, and fail, or are interrupted, where it
# hurts: nobody is harmed by being watched, and nothing is lost or mixed up.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'sift_test, sift'
sift.track_statements = 'all'
sift.log_min_peak = 0
jit = off
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION sift; ' . join ';', map { "CREATE TABLE $_ AS SELECT 1 AS one" } qw(outer_one inner_one cursor_a cursor_b));

# A statement that needs so many MB for each row; a table of that name tells it
# apart.
sub need { return "SELECT length(repeat('x', n * 1048576)) FROM generate_series($_[1]) AS n, $_[0]" }

# What is kept of it.
sub kept
{
	my ($statement, $columns) = @_;
	$node->safe_psql('postgres', "SET sift.track_statements = 'none'; SET sift.log_min_peak = -1; EXPLAIN (VERBOSE) $statement") =~ /Query Identifier: (-?\d+)/ or die;
	return $node->safe_psql('postgres', "SET sift.track_statements = 'none'; SET sift.log_min_peak = -1; SELECT $columns FROM sift_memory_usage_statements WHERE queryid = $1");
}

# --- cancelled when it passes most of its limit in the middle of a request
my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->query('\set VERBOSITY sqlstate');
$session->query_safe("SET sift.memory_limit = '105MB'");
my $from = -s $node->logfile;
$session->query(q{SELECT length(to_json(repeat('"', 8500000) || CASE WHEN pg_cancel_backend(pg_backend_pid()) THEN '' END)::text) FROM generate_series(1, 2)});
like($session->{stderr}, qr/57014/, 'a statement that is cancelled in the middle of a request');
$session->{stderr} = '';
like(slurp_file($node->logfile, $from), qr/LOG:  statement has passed 80% of its memory limit, 107520 kB/, 'is logged');
$session->query("SELECT length(repeat('x', 120000000 + (random() * 0)::int))");
like($session->{stderr}, qr/53200/, 'and afterwards the limit holds');
$session->{stderr} = '';

# --- refused and caught again and again, each logged
$session->query_safe(q{DO $$ BEGIN FOR i IN 1..20 LOOP BEGIN PERFORM length(repeat('x', 120000000 + i)); EXCEPTION WHEN out_of_memory THEN NULL; END; END LOOP; END $$});
is($session->query_safe('SELECT refusals FROM sift_last_statement()'), '20', 'all refusals that a block has caught are its own');
$session->quit;

# --- a library that runs statements while a query is started
$node->safe_psql('postgres', "SET sift_test.nested = '" . (need('inner_one', '7, 7') =~ s/'/''/gr) . "'; " . need('outer_one', '30, 30'));
is(kept(need('outer_one', '1, 1'), 'toplevel, calls, max_peak_bytes >> 20'), 't|1|30', 'a query that is started with another one within');
is(kept(need('inner_one', '1, 1'), 'toplevel, calls, max_peak_bytes >> 20'), 't|1|7', 'which comes before it');

# --- a cursor that goes on after a block beside it has failed
$node->safe_psql('postgres', 'DO $$ DECLARE a refcursor; r record; BEGIN OPEN a FOR ' . need('cursor_a', '18, 18') . q{;
	BEGIN PERFORM 1 / (random() * 0)::int; EXCEPTION WHEN division_by_zero THEN NULL; END;
	FETCH a INTO r; END $$});
is(kept(need('cursor_a', '1, 1'), 'toplevel, calls, max_peak_bytes >> 20'), 'f|1|18', 'a cursor beside which a block fails');

# --- statements within the start of another: a function is called to see which
# partitions are needed
$node->safe_psql('postgres', q{CREATE TABLE parts (k int, v int) PARTITION BY LIST (k);
	CREATE TABLE part_1 PARTITION OF parts FOR VALUES IN (1); CREATE TABLE part_2 PARTITION OF parts FOR VALUES IN (2);
	INSERT INTO parts SELECT i % 2 + 1, i FROM generate_series(1, 100) AS i;
	CREATE FUNCTION catches() RETURNS int STABLE LANGUAGE plpgsql AS $$ BEGIN BEGIN RAISE 'x'; EXCEPTION WHEN OTHERS THEN NULL; END; RETURN 1; END $$;
	CREATE FUNCTION runs() RETURNS int STABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM FROM part_2; RETURN 1; END $$;
	CREATE FUNCTION fails() RETURNS int STABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM FROM part_2; IF current_setting('test.armed', true) = 'on' THEN RAISE 'x'; END IF; RETURN 1; END $$;
	CREATE FUNCTION refused() RETURNS int STABLE LANGUAGE plpgsql AS $$ BEGIN RETURN CASE WHEN current_setting('test.armed', true) = 'on' THEN length(repeat('x', 80000000 + (random() * 0)::int)) END; END $$;
	CREATE FUNCTION calls_refused() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(v) FROM parts WHERE k = refused()); END $$});
my $once = 'toplevel, calls, refusals, mean_peak_bytes = max_peak_bytes, last_peak_bytes = max_peak_bytes';
for my $case ([ 'catches', 't|1|0|t|t' ], [ 'runs', 't|1|0|t|t' ], [ 'fails', 't|1|0|t|t' ], [ 'refused', 't|1|1|t|t' ])
{
	my ($function, $expected) = @$case;
	my $query = "SELECT v, '$function' FROM parts WHERE k = $function()";
	$node->psql('postgres', "SET test.armed = 'on'; SET plan_cache_mode = force_generic_plan; SET sift.memory_limit = '64MB'; PREPARE q AS $query; EXECUTE q");
	is(kept($query, $once), $expected, "a start in which a function $function");
}
$node->psql('postgres', "SET test.armed = 'on'; SET plan_cache_mode = force_generic_plan; SET sift.memory_limit = '64MB'; SELECT calls_refused()");
is(kept('SELECT (SELECT count(v) FROM parts WHERE k = refused())', 'toplevel, calls, refusals'), 'f|1|1', 'a refusal while a statement within another one is started is its own');
is(kept('SELECT calls_refused()', 'toplevel, calls, refusals'), 't|1|1', 'and the other one\'s');

# --- a cursor that is run to its end again and again is one call
my $scrolled = "SELECT i, 'scrolled' FROM generate_series(1, 100) AS i";
$node->safe_psql('postgres', "DO \$\$ DECLARE c SCROLL CURSOR FOR $scrolled; BEGIN OPEN c; MOVE FORWARD ALL FROM c; MOVE BACKWARD ALL FROM c; MOVE FORWARD ALL FROM c; END \$\$");
is(kept($scrolled, 'calls'), '1', 'a cursor that is run to its end more than once');

# --- statements that call themselves by way of another
$node->safe_psql('postgres', q{CREATE FUNCTION ping(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN n; END $$;
	CREATE FUNCTION pong(n int) RETURNS int LANGUAGE plpgsql AS $$ DECLARE r int; BEGIN SELECT ping(n - 1) + 0 INTO r; RETURN r; END $$;
	CREATE OR REPLACE FUNCTION ping(n int) RETURNS int LANGUAGE plpgsql AS $$ DECLARE r int; BEGIN
		IF n < 0 THEN RETURN length(repeat('x', 80000000 - n)); END IF; SELECT pong(n - 1) INTO r; RETURN r; END $$});
$node->psql('postgres', "SELECT sift_reset_statements(); SET sift.memory_limit = '64MB'; SELECT ping(10)");
is($node->safe_psql('postgres', "SET sift.track_statements = 'none'; SET sift.log_min_peak = -1; SELECT DISTINCT refusals FROM sift_memory_usage_statements WHERE NOT toplevel AND calls > 3"), '1', 'a refusal counts once a statement');

# --- the log is the server's: a client that does not read holds up nobody
$node->psql('postgres', 'SET client_min_messages = log; ' . need('cursor_a', '18, 18'), stderr => \my $stderr);
unlike($stderr, qr/LOG:  memory of statement/, 'the log does not go to the client');

# --- near the limit while it is planned
$node->safe_psql('postgres', q{CREATE FUNCTION eats(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN length(repeat('x', n)); END $$});
$from = -s $node->logfile;
$node->safe_psql('postgres', "SET sift.memory_limit = '64MB'; SELECT eats(56000000)");
is(scalar(() = slurp_file($node->logfile, $from) =~ /LOG:  statement has passed 80%/g), 1, 'a statement that passes most of its limit while it is planned');

# --- the statements are forgotten while one is being run
$node->safe_psql('postgres', 'DO $$ DECLARE b refcursor; r record; BEGIN OPEN b FOR ' . need('cursor_b', '9, 12') . q{;
	FETCH b INTO r; PERFORM sift_reset_statements(); FETCH b INTO r; FETCH b INTO r; FETCH b INTO r; END $$});
is(kept(need('cursor_b', '1, 2'), 'calls'), '1', 'a call that goes on is there again, as one');
my $all = 'SELECT count(*) > 0 AND min(calls) > 0 FROM sift_memory_usage_statements';
is($node->safe_psql('postgres', $all), 't', 'nor is another');
$node->restart;
is($node->safe_psql('postgres', "SET sift.track_statements = 'none'; $all"), 't', 'the statements are kept over a restart then');

is(scalar(() = slurp_file($node->logfile) =~ /PANIC|TRAP|terminated by signal/g), 0, 'nobody was harmed');
$node->stop;
done_testing();
