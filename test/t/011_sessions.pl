# One account a session: a leader and its parallel workers share a limit, and
# the dynamic shared memory that any of them makes is the session's.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'sift'
max_worker_processes = 8
jit = off
autovacuum = off
restart_after_crash = on
parallel_setup_cost = 0
parallel_tuple_cost = 0
min_parallel_table_scan_size = 0
max_parallel_workers_per_gather = 2
max_parallel_maintenance_workers = 2
enable_mergejoin = off
enable_nestloop = off
});
$node->start;

# Segments of this user and group, whose processes can be looked at, that no
# process has mapped: something else may run here.
sub left_in_shared_memory
{
	my @there = glob '/dev/shm/PostgreSQL.*';
	my %mapped = map { $_ => 1 } map { m{(/dev/shm/PostgreSQL\.\d+)} } split /\n/, `cat /proc/[0-9]*/maps 2>/dev/null`;
	my ($group) = split / /, $);
	return join ' ', grep { !$mapped{$_} && -o $_ && (stat _)[5] == $group } sort @there;
}
my $before = left_in_shared_memory();

$node->safe_psql('postgres', q{
	CREATE EXTENSION sift;
	CREATE TABLE a AS SELECT i AS k, i % 60000 AS g, repeat(md5(i::text), 2) AS pad FROM generate_series(1, 500000) i;
	CREATE TABLE b AS SELECT * FROM a;
	ALTER TABLE a SET (parallel_workers = 2); ALTER TABLE b SET (parallel_workers = 2);
	ANALYZE a, b;});

sub run
{
	my ($sql) = @_;
	my ($ret, $stdout, $stderr) = $node->psql('postgres', $sql, on_error_stop => 0);
	return ($stdout, $stderr);
}

# What a session holds beside its own process goes with its workers, but for
# what it has in common with the next ones (and what statistics took).
my $at_rest = q{SELECT count(*) FILTER (WHERE leader_pid IS NOT NULL), sum(shared_bytes) < 3000000 FROM sift_memory_usage_backends};

# Statements that pass the limit although each process alone would fit: what a
# single process does of it passes under the same limit.
my %over = (
	'parallel aggregate' => [ q{SET work_mem = '1GB'; SET enable_sort = off; SET parallel_tuple_cost = 0.02}, '40MB',
		q{SELECT count(*), max(m) FROM (SELECT g, max(pad) AS m FROM a WHERE k <= %d GROUP BY g) s}, 500000, 500000 ],
	'parallel hash join' => [ q{SET work_mem = '1GB'}, '40MB',
		q{SELECT count(a.pad || b.pad) FROM a JOIN b USING (k) WHERE b.k <= %d}, 500000, 100000 ],
	'parallel index build' => [ q{SET maintenance_work_mem = '90MB'}, '48MB',
		q{CREATE INDEX i ON a (pad) WHERE k <= %d; DROP INDEX IF EXISTS i}, 500000, 150000 ]);
for my $what (sort keys %over)
{
	my ($set, $limit, $statement, $all, $share) = @{ $over{$what} };
	my ($stdout, $stderr) = run(qq{
		\\set VERBOSITY verbose
		$set; SET sift.memory_limit = '$limit';
		} . sprintf($statement, $all) . qq{;
		$at_rest;
		SELECT count(*) FROM a;
		SELECT refusals > 0, peak_bytes < 1.2 * limit_bytes FROM sift_memory_usage_backends WHERE pid = pg_backend_pid()});
	like($stdout, qr/^0\|t\n500000\nt\|t$/m, "$what: refused, the workers are gone, the session goes on")
		or diag($stderr);
	like($stderr, qr/ERROR:  53200: .*HINT:  sift\.memory_limit is \d+ kB; held are \d+ kB: .*, server \d+ kB, shared \d+ kB\./s,
		"$what: the hint reaches the leader");
	unlike((run(qq{$set; SET sift.memory_limit = '$limit'; SET max_parallel_workers_per_gather = 0; SET max_parallel_maintenance_workers = 0;
		} . sprintf($statement, $share)))[1], qr/ERROR/, "$what: one process alone fits");
	unlike((run(qq{$set; SET sift.memory_limit = '400MB'; } . sprintf($statement, $all)))[1], qr/ERROR/, "$what: a limit that fits");
}
is(left_in_shared_memory(), $before, 'nothing is left of it in /dev/shm');
is((run(q{SET work_mem = '1GB'; SELECT count(a.pad || b.pad) FROM a JOIN b USING (k);
	SELECT peak_bytes > 30000000 FROM sift_memory_usage WHERE kind = 'shared';
	SELECT peak_bytes > 30000000 FROM sift_memory_usage_backends WHERE pid = pg_backend_pid();
	SELECT FROM sift_reset_peak();
	SELECT peak_bytes = bytes FROM sift_memory_usage WHERE kind = 'shared';
	SELECT peak_bytes < 10000000 FROM sift_memory_usage_backends WHERE pid = pg_backend_pid()}))[0],
	"500000\nt\nt\nt\nt", 'peaks, and their reset');
like($node->safe_psql('postgres', q{SELECT DISTINCT kind FROM sift_memory_refusals ORDER BY 1}),
	qr/^server\nshared$/, 'some were refused for shared memory');

# Workers are seen while they work, with the leader and under its limit.
my $holder = $node->background_psql('postgres', on_error_stop => 0);
$holder->query_safe(q{SET sift.memory_limit = '200MB'; SET work_mem = '100MB'});
$node->safe_psql('postgres', q{CREATE FUNCTION wait_here(bigint) RETURNS bool LANGUAGE plpgsql PARALLEL SAFE AS
	$$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN true; END $$});
my $gate = $node->background_psql('postgres', on_error_stop => 0);

# The session begins a parallel join, whose two workers wait for the gate.  Returns
# the leader's pid.
sub begin_join
{
	my ($session) = @_;
	my $leader = $session->query_safe('SELECT pg_backend_pid()');
	$gate->query_safe('SELECT pg_advisory_lock(1)');
	$session->query_until(qr/started/, qq{\\echo started\nSELECT count(*) FROM a JOIN b USING (k) WHERE wait_here(b.k);\n});
	$node->poll_query_until('postgres', "SELECT count(*) = 2 FROM pg_stat_activity WHERE leader_pid = $leader AND wait_event_type = 'Lock'")
		or die 'the workers do not come';
	return $leader;
}
my $pid = begin_join($holder);
is($node->safe_psql('postgres', qq{
	SELECT count(*), min(limit_bytes), bool_and(server_bytes > 1000000), bool_and(shared_bytes = 0)
	FROM sift_memory_usage_backends WHERE leader_pid = $pid}), '2|' . 200 * 1024 * 1024 . '|t|t',
	'workers have a row, the leader and its limit');
is($node->safe_psql('postgres', qq{SELECT shared_bytes > 0, charged_bytes = server_bytes + shared_bytes
	FROM sift_memory_usage_backends WHERE pid = $pid}), 't|t', 'shared memory is in the row of the leader');
$gate->query_safe('SELECT pg_advisory_unlock(1)');
$holder->query_safe('SELECT 1');
is($node->safe_psql('postgres', $at_rest), '0|t', 'and both are gone after that');

# A worker that is killed by a query cancel or a termination of its leader.
for my $end ('pg_cancel_backend', 'pg_terminate_backend')
{
	my $victim = $node->background_psql('postgres', on_error_stop => 0);
	my $victim_pid = begin_join($victim);
	$node->safe_psql('postgres', "SELECT $end($victim_pid)");
	$node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE leader_pid = $victim_pid)")
		or die 'the workers do not go';
	$gate->query_safe('SELECT pg_advisory_unlock(1)');
	is($node->safe_psql('postgres', $at_rest), '0|t', "$end leaves nothing");
	eval { $victim->quit };
}
is(left_in_shared_memory(), $before, 'nothing in /dev/shm either');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'the server is whole');

# A worker that the kernel kills: the server begins again, and nothing is charged for what was.
$pid = begin_join($holder);
my $held = $node->safe_psql('postgres', qq{
	SELECT (SELECT sum(shared_bytes) > 3000000 FROM sift_memory_usage_backends), (SELECT count(*) > 0 FROM sift_memory_refusals),
		min(pid) FROM sift_memory_usage_backends WHERE leader_pid = $pid});
like($held, qr/^t\|t\|\d+$/, 'a join holds shared memory, and refusals are known');
my $from = -s $node->logfile;
kill 'KILL', (split /\|/, $held)[2];
eval { $_->quit } for $holder, $gate;
$node->wait_for_log(qr/all server processes terminated; reinitializing.*ready to accept connections/s, $from);
is($node->safe_psql('postgres', "$at_rest; SELECT count(*) FROM sift_memory_refusals"), "0|t\n0", 'a killed worker leaves nothing');
is(left_in_shared_memory(), $before, 'nor in /dev/shm');
is((run(q{SET sift.memory_limit = '400MB'; SELECT count(*) FROM a JOIN b USING (k)}))[0], 500000, 'and the next join works');
$node->stop;

# Where segments are of another type they are not accounted.
$node->append_conf('postgresql.conf', 'dynamic_shared_memory_type = mmap');
$node->start;
is($node->safe_psql('postgres', q{SET work_mem = '100MB'; SELECT count(*) FROM a JOIN b USING (k);
	SELECT bytes IS NULL FROM sift_memory_usage WHERE kind = 'shared'}), "500000\nt", 'type mmap: null');
$node->stop;
done_testing();
