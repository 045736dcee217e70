# The limit of all backends together.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'sift'
max_connections = 60
jit = off
autovacuum = off
restart_after_crash = on
work_mem = '1GB'
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION sift; CREATE EXTENSION sift_test');

# What is charged, and what the C library keeps; shared memory that outlives
# its session is the postmaster's.
my $difference = q{SELECT t.charged_bytes - sum(coalesce(b.charged_bytes, b.shared_bytes, 0) + coalesce(free_heap_bytes, 0))
	FROM sift_memory_usage_total t, sift_memory_usage_backends b GROUP BY t.charged_bytes};
sub total { return $node->safe_psql('postgres', "SELECT $_[0] FROM sift_memory_usage_total") }
sub is_sum
{
	my ($when) = @_;
	# the looking session itself takes some memory from one view to the other
	ok($node->poll_query_until('postgres', "SELECT abs(d) < 524288 FROM ($difference) AS t(d)"), "the total is the sum of the rows $when");
}

is(total('limit_bytes'), '', 'no limit');
cmp_ok(total('backends'), '>=', 5, 'the processes that have an account');
is_sum('at rest');
my $at_rest = total('charged_bytes');

# It is set while the server runs; a session that asks for more is refused,
# with what all hold, and another one can look.
$node->append_conf('postgresql.conf', "sift.total_memory_limit = '120MB'");
$node->reload;
$node->poll_query_until('postgres', 'SELECT limit_bytes = 120 * 1024 * 1024 FROM sift_memory_usage_total');
my $keep = q{SELECT sift_test_keep('%s', 'SELECT i, repeat($$x$$, 1000) FROM generate_series(1, %d) i')};
my $holder = $node->background_psql('postgres', on_error_stop => 0);
my $holder_pid = $holder->query_safe('SELECT pg_backend_pid()');
$holder->query_safe(sprintf $keep, 'rows', 60000);
is_sum('with rows kept');
my ($ret, $stdout, $stderr) = $node->psql('postgres', q{
	\set VERBOSITY verbose
	SELECT array_agg(repeat('x', 1000)) FROM generate_series(1, 200000);
	SELECT count(*) > 5 FROM sift_memory_usage_backends;
	SELECT refusals, charged_bytes <= limit_bytes FROM sift_memory_usage_total;
	SELECT limit_bytes FROM sift_memory_refusals ORDER BY at DESC LIMIT 1;
	SELECT limit_bytes IS NULL FROM sift_memory_usage_backends WHERE pid = pg_backend_pid()}, on_error_stop => 0);
like($stderr, qr/ERROR:  53200: out of memory\nDETAIL:  .*\nHINT:  sift\.total_memory_limit is 122880 kB; all backends hold \d+ kB; held are \d+ kB: row 0 kB/, 'refused, with the setting');
is($stdout, "t\n1|t\n125829120\nt", 'the session goes on and can look');
$stderr = ($node->psql('postgres', sprintf($keep, 'more', 100000), on_error_stop => 0))[2];
like($stderr, qr/HINT:  sift\.total_memory_limit is 122880 kB/, "Sift's own blocks are refused too");

# What was given back is there for others.
$holder->query_safe(q{SELECT sift_test_drop('rows'), sift_trim()});
is($node->safe_psql('postgres', q{SELECT array_length(array_agg(repeat('x', 1000)), 1) FROM generate_series(1, 30000)}), 30000, 'another session has it then');

# What the C library keeps counts, and goes before a request is refused.
my $warm = q{DO $$ DECLARE a text[]; BEGIN FOR i IN 1..7000 LOOP a[i] := repeat('x', 10000); END LOOP; END $$;};
is($node->safe_psql('postgres', qq{$warm
	SELECT free_heap_bytes > 50000000 FROM sift_memory_usage_backends WHERE pid = pg_backend_pid();
	SELECT charged_bytes > 60000000 FROM sift_memory_usage_total;
	SELECT sift_test_keep('rows', 'SELECT i, repeat(\$\$x\$\$, 1000) FROM generate_series(1, 70000) i');}), "t\nt\n70000", 'free heap goes under pressure');

# At the limit a session that did nothing is not trapped, nor is a new one.
$holder->query_safe(sprintf $keep, 'fill', 50000);
my $filler = $node->background_psql('postgres', on_error_stop => 0);
$filler->query_safe(q{DO $$ DECLARE i int := 0; BEGIN
	LOOP i := i + 1; PERFORM sift_test_keep('fill' || i, 'SELECT repeat($q$x$q$, 1000) FROM generate_series(1, 500) i'); END LOOP;
	EXCEPTION WHEN out_of_memory THEN NULL; END $$});
# what the others keep warm may go meanwhile
cmp_ok(total('limit_bytes - charged_bytes'), '<', 16 * 1024 * 1024, 'the server is near its limit');
is($node->safe_psql('postgres', q{SET search_path = public; BEGIN; SELECT count(*) > 300 FROM pg_class; COMMIT;
	SELECT count(*) > 0 FROM sift_memory_usage_backends; SELECT count(*) > 0 FROM pg_stat_activity}), "t\nt\nt", 'a new session works there');
$filler->quit;

# Many sessions run away at once; the total stays.
my $script = $node->basedir . '/away.sql';
append_to_file($script, "SELECT array_agg(repeat('x', 1000)) FROM generate_series(1, 200000);\n");
my ($out, $err) = ('', '');
my $away = IPC::Run::start([ 'sh', '-c', 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do psql -Xq -v ON_ERROR_STOP=0 -d "$0" -f "$1" -f "$1" -f "$1" & done; wait',
	$node->connstr('postgres'), $script ], '<', \undef, '>', \$out, '2>', \$err);
$away->finish;
cmp_ok(scalar(() = $err =~ /ERROR/g), '>', 0, 'many run away at once');
is(scalar(() = $err =~ /sift\.total_memory_limit is/g), scalar(() = $err =~ /ERROR/g), 'each error is of that limit');
# a grant and a float for each of 20 sessions, and what a session needs to come up
my $most = total('peak_bytes');
cmp_ok($most, '>', 110 * 1024 * 1024, 'they came near the limit');
cmp_ok($most, '<', (120 + 20 * (2 + 4)) * 1024 * 1024, sprintf('and no further: at most %d MB', $most / 1048576));
is_sum('after that');

# A session cannot keep more and more while the total is passed.
$node->append_conf('postgresql.conf', "sift.total_memory_limit = '8MB'");
$node->reload;
$node->poll_query_until('postgres', 'SELECT limit_bytes = 8 * 1024 * 1024 FROM sift_memory_usage_total');
($ret, $stdout, $stderr) = $node->psql('postgres', join('', map { "PREPARE a$_ AS SELECT " . join('+', 1 .. 150) . ";\n" } 1 .. 100)
	. q{SELECT 'peak', bytes < 16000000 FROM sift_memory_usage WHERE kind = 'server'; DEALLOCATE ALL; SELECT 'alive'}, on_error_stop => 0);
like($stderr, qr/DETAIL:  This session kept \d+ kB when the statement began\.\nHINT:  sift\.total_memory_limit is 8192 kB; all/, 'what is kept is bounded');
is($stdout, "peak|t\nalive", 'and the session is not trapped');
$node->append_conf('postgresql.conf', "sift.total_memory_limit = '120MB'");
$node->reload;
$node->poll_query_until('postgres', 'SELECT limit_bytes = 120 * 1024 * 1024 FROM sift_memory_usage_total');

# Nothing stays of a session, however it ends.
$holder->quit;
my %ends = (
	'normal end' => sub { $_[0]->quit },
	'pg_terminate_backend' => sub { $node->safe_psql('postgres', "SELECT pg_terminate_backend($_[1], 60000)"); eval { $_[0]->quit } },
	'FATAL' => sub { $_[0]->query('SET idle_session_timeout = 1'); eval { $_[0]->quit } },
	'crash restart' => sub { kill 'KILL', $_[1]; eval { $_[0]->quit };
		$node->poll_query_until('postgres', 'SELECT 1', '1') or die 'the server does not come back' });
for my $end (sort keys %ends)
{
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	$session->query_safe(sprintf $keep, 'rows', 30000);
	$session->query_safe('SET max_parallel_workers_per_gather = 2');
	cmp_ok(total('charged_bytes'), '>', $at_rest + 30_000_000, "$end: charged");
	$ends{$end}->($session, $pid);
	$node->poll_query_until('postgres', "SELECT charged_bytes < $at_rest + 2 * 1024 * 1024 FROM sift_memory_usage_total")
		or diag(total('charged_bytes') . " of $at_rest");
	is_sum("after $end");
}

# Many sessions leave nothing behind, in the table of segments either.
$node->safe_psql('postgres', 'CREATE TABLE p AS SELECT i FROM generate_series(1, 1000) i; ALTER TABLE p SET (parallel_workers = 1)');
my $parallel = $node->basedir . '/parallel.sql';
append_to_file($parallel, "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;\nSELECT count(*) FROM p a JOIN p b USING (i);\n");
$node->safe_psql('postgres', 'SELECT 1');
my $segments = q{SELECT coalesce(sum(shared_bytes), 0) < 4 * 1024 * 1024 FROM sift_memory_usage_backends};
$node->command_ok([ 'pgbench', '-n', '-C', '-c', '4', '-t', $ENV{SIFT_TEST_SESSIONS} || 50, '-f', $parallel, $node->connstr('postgres') ], 'sessions come and go');
is($node->safe_psql('postgres', $segments), 't', 'no segment is charged any more');
is_sum('after them');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP/, 'the server is whole');
$node->stop;
done_testing();
