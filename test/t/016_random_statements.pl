# Random statements at random limits: sessions live, errors are PostgreSQL's own
# clean ones, and the books are right after each statement.
#
# SIFT_TEST_RANDOM_SESSIONS: how many sessions of 60 statements (default 10)
# SIFT_TEST_SEED: repeat a run
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $sessions = $ENV{SIFT_TEST_RANDOM_SESSIONS} || 10;
my $seed = $ENV{SIFT_TEST_SEED} || int(rand(2**31));
note "seed $seed";
srand($seed);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'sift'
jit = off
sift.track_statements = 'all'
sift.log_min_peak = '1MB'
statement_timeout = '20s'
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION sift; CREATE EXTENSION sift_test;
CREATE TABLE a AS SELECT i, i % 100 AS k, repeat(md5(i::text), 3) AS s, jsonb_build_object('i', i, 'k', i % 7) AS j, ARRAY[i, i + 1] AS l FROM generate_series(1, 20000) i;
CREATE TABLE b AS SELECT i, i % 100 AS k, md5(i::text) AS s FROM generate_series(1, 20000) i;
CREATE INDEX ON b (i);
ANALYZE;
CREATE FUNCTION caught(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE statement;
	RETURN 'done';
EXCEPTION WHEN out_of_memory THEN RETURN 'caught';
END $$;
});

sub one_of { return $_[ int(rand(@_)) ] }

# A number of rows: mostly few, sometimes many.
sub many { return int(10**(1 + rand(4.5))) }

sub expression
{
	return one_of('count(*)', 'sum(a.i)', 'array_agg(a.i)', q{string_agg(a.s, ',')}, 'jsonb_agg(a.j)', 'json_object_agg(a.i, a.s)',
		'max(a.s)', 'count(DISTINCT a.s)', 'percentile_cont(0.5) WITHIN GROUP (ORDER BY a.i)', 'array_agg(a.l)', 'bool_and(a.i > 0)');
}

sub from
{
	return 'a WHERE a.i <= ' . many() if rand() < 0.4;
	return 'a JOIN b USING (' . one_of('i', 'k') . ') WHERE a.i <= ' . int(many() / 20);
}

sub query
{
	my $rows = many();
	return one_of(
		sub { 'SELECT ' . expression() . ', ' . expression() . ' FROM ' . from() },
		sub { 'SELECT a.k, ' . expression() . ' FROM ' . from() . ' GROUP BY a.k ORDER BY 1' },
		sub { 'SELECT a.i % ' . many() . ', ' . expression() . ' FROM ' . from() . ' GROUP BY 1' },
		sub { 'SELECT DISTINCT a.s FROM ' . from() . ' ORDER BY 1' },
		sub { 'SELECT a.*, row_number() OVER (PARTITION BY a.k ORDER BY a.s DESC) FROM ' . from() },
		sub { "SELECT length(repeat('x', " . $rows * 1000 . '))' },
		sub { "SELECT count(*) FROM (SELECT g, md5(g::text) FROM generate_series(1, $rows) g ORDER BY 2 OFFSET 1) x" },
		sub { "WITH RECURSIVE r AS (SELECT 1 AS n, 'x'::text AS t UNION ALL SELECT n + 1, t || 'y' FROM r WHERE n < " . int($rows / 50) . ') SELECT max(length(t)) FROM r' },
		sub { "WITH m AS MATERIALIZED (SELECT g, repeat('m', 50) AS t FROM generate_series(1, $rows) g) SELECT count(*) FROM m x JOIN m y USING (g)" },
		sub { "SELECT array_length(array_fill(7, ARRAY[" . $rows * 20 . ']), 1)' },
		sub { "SELECT length(jsonb_pretty(jsonb_agg(jsonb_build_array(g, repeat('j', 20))))) FROM generate_series(1, $rows) g" },
		sub { "SELECT count(*) FROM regexp_split_to_table(repeat('ab,', $rows), ',')" },
		sub { 'VALUES ' . join(', ', map { "($_, 'v$_')" } 1 .. int(1 + $rows / 40)) },
		sub { 'SELECT ' . join(' + ', map { "coalesce(a.i, $_)" } 1 .. int(1 + $rows / 200)) . ' FROM a LIMIT 3' },
	)->();
}

# One statement, or some that belong together.
sub statement
{
	my $name = 'n' . int(rand(5));
	return one_of(
		(sub { query() }) x 6,
		sub { 'SELECT caught($q$' . query() . '$q$)' },
		sub { "BEGIN; DECLARE $name " . one_of('', 'SCROLL') . ' CURSOR ' . one_of('', 'WITH HOLD') . ' FOR ' . query() . "; FETCH 10 FROM $name; "
				. query() . "; FETCH " . one_of('ALL', 'BACKWARD 3', '100') . " FROM $name; " . one_of('COMMIT', 'ROLLBACK') },
		sub { 'BEGIN; SAVEPOINT s; ' . query() . '; ROLLBACK TO s; ' . query() . '; ' . one_of('COMMIT', 'ROLLBACK') },
		sub { 'COPY (' . query() . q{) TO '/dev/null'} },
		sub { "CREATE TEMP TABLE IF NOT EXISTS $name AS SELECT a.i, a.s FROM " . from() . "; CREATE INDEX ON $name (s); SELECT count(*) FROM $name" },
		sub { "UPDATE $name SET s = s || 'z'; DELETE FROM $name WHERE i % 3 = 0; DROP TABLE IF EXISTS $name" },
		sub { "PREPARE $name AS " . query() . "; EXECUTE $name; EXECUTE $name" },
		sub { one_of('DEALLOCATE ALL', 'CLOSE ALL', 'DISCARD ALL', 'SELECT sift_trim() >= 0', 'SELECT sift_compact() >= 0', 'DISCARD PLANS') },
		sub { "SELECT sift_test_keep('$name', 'SELECT g, md5(g::text) FROM generate_series(1, " . many() . ") g'); SELECT sift_test_drop('$name')" },
		sub { "SET work_mem = '" . one_of('64kB', '1MB', '64MB') . "'; SET enable_hashjoin = " . one_of('on', 'off') },
		sub { one_of('SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0', 'RESET ALL') },
		sub { 'EXPLAIN (ANALYZE, COSTS OFF) ' . query() },
		sub { q{DO $$ DECLARE t text := ''; BEGIN FOR i IN 1..} . int(many() / 10) . q{ LOOP t := t || repeat('d', 100); BEGIN PERFORM md5(t); EXCEPTION WHEN others THEN NULL; END; END LOOP; END $$} },
		sub { 'ANALYZE a; VACUUM b' },
	)->();
}

# What it may end with: refused, cancelled (after many refusals, or since it takes
# long), what no value can be long enough for, and what follows from one before
# that was refused, or was there already.
my $clean = qr/^(53200|57014|54000|25P02|26000|42704|42P01|42P03|42P05|55000)$/;
for my $session (1 .. $sessions)
{
	my $script = "\\set VERBOSITY sqlstate\n\\o /dev/null\n";
	for (1 .. 60)
	{
		$script .= "SET sift.memory_limit = '" . one_of('-1', '1MB', '3MB', '5MB', '8MB', '16MB', '64MB') . "';\n" . statement() . ";\n"
			. "ROLLBACK;\n\\o\nSELECT 'difference', sift_test_heap_difference();\n"
			. "SELECT 'sum', charged_bytes - row_bytes - batch_bytes - large_bytes - idle_bytes - server_bytes - shared_bytes FROM sift_memory_usage_backends WHERE pid = pg_backend_pid();\n\\o /dev/null\n";
	}
	my (undef, $stdout, $stderr) = $node->psql('postgres', "$script\\o\n\\qecho end\n", on_error_stop => 0, extra_params => ['-q']);
	my %unclean = map { $_ => 1 } grep { !/$clean/ } $stderr =~ /(?:ERROR|FATAL|PANIC):  (\w+)/g;
	is(join(' ', sort keys %unclean), '', "session $session: clean errors") or diag($stderr);
	like($stdout, qr/end$/, 'the session lives');
	my @differences = $stdout =~ /^difference\|(-?\d+)/mg;
	is(scalar @differences, 60, 'the books can be looked at after each statement');
	is(scalar(grep { abs($_) > 65536 } @differences), 0, 'what is counted is what the heap holds') or diag("@differences");
	is(join(' ', grep { $_ != 0 } $stdout =~ /^sum\|(-?\d+)/mg), '', 'and the sum of the kinds');
}
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal|WARNING:  (?!there is no transaction)/, 'the server is whole');
ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM sift_memory_usage_backends WHERE backend_type IN ('client backend', 'parallel worker')}), 'nothing is left of them');
$node->stop;
done_testing();
