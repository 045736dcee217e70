# What the system gives a server: other allocators, limits on its processes, and
# many sessions.
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
work_mem = '1GB'
max_connections = 320
});
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION sift; CREATE EXTENSION sift_test;
	CREATE TABLE numbers AS SELECT generate_series(1, 300000) AS i;
	ANALYZE numbers});

# Whatever the system gives, limits and contexts work and the session goes on.
sub works
{
	my ($how) = @_;
	my ($ret, $stdout, $stderr) = $node->psql('postgres', q{
		SET sift.memory_limit = '40MB';
		SELECT string_agg(repeat('x', 1000), '') FROM numbers;
		SELECT sift_test_keep('rows', 'SELECT i, repeat($$x$$, 1000) FROM numbers');
		SELECT count(*) FROM sift_memory_usage_contexts;
		SELECT sift_test_keep('rows', 'SELECT i FROM numbers LIMIT 10000');
		SELECT count(*) FROM sift_test_kept('rows') AS k(i int);
		SELECT sift_test_drop('rows') IS NOT NULL;
		SET sift.memory_limit = -1;
		SELECT sum(a.i) FROM numbers a JOIN numbers b USING (i);
		SELECT sift_trim() >= 0;
		SELECT bytes < 60000000 FROM sift_memory_usage WHERE kind = 'server'}, on_error_stop => 0);
	is($stdout, "0\n10000\n10000\nt\n45000150000\nt\nt", "$how: contexts, a join and a trim");
	is(scalar(() = $stderr =~ /ERROR:  out of memory\nDETAIL:  .*\nHINT:  sift\.memory_limit is 40960 kB/g), 2, "$how: two refusals")
	  or diag($stderr);
}

# Other allocators, for the whole server.
$node->stop;
for my $library (qw(libjemalloc.so.2 libtcmalloc_minimal.so.4))
{
	my $from = -s $node->logfile;
	{
		local $ENV{LD_PRELOAD} = $library;
		$node->start;
	}
	my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
	like(slurp_file("/proc/$postmaster/maps"), qr/\Q$library\E/, "$library is there");
	works($library);
	is($node->safe_psql('postgres', q{SELECT server_bytes > 500000 AND free_heap_bytes IS NULL FROM sift_memory_usage_backends WHERE pid = pg_backend_pid()}),
		't', 'what it gives is counted');
	$node->stop;
	unlike(slurp_file($node->logfile, $from), qr/PANIC|terminated by signal|cannot (load|account)/, 'and the server is whole');
}

# Limits that the system has for a process.  A limit of Sift's is below them; what is
# not is refused by the system, and says so.
my %says = (
	as => qr/The range of addresses that is reserved for Sift's memory contexts has no room left/,
	data => qr/The operating system gave no memory: Cannot allocate memory/);
for my $resource (qw(as data))
{
	chomp(my $before = `prlimit --pid $$ --raw --noheadings --output SOFT --$resource`);
	system_or_bail('prlimit', '--pid', $$, "--$resource=1500000000:");
	$node->start;
	system_or_bail('prlimit', '--pid', $$, "--$resource=$before:");
	works("RLIMIT_\U$resource\E");
	my ($ret, $stdout, $stderr) = $node->psql('postgres', q{
		SELECT sift_test_keep('rows', 'SELECT i, repeat($$x$$, 10000) FROM numbers');
		SELECT sift_test_keep('rows', 'SELECT 1');
		SELECT count(*) FROM numbers}, on_error_stop => 0);
	like($stderr, qr/ERROR:  out of memory\nDETAIL:  .*sift_test kept.*\nHINT:  $says{$resource}/, "RLIMIT_\U$resource\E: the system refuses, and the hint says so");
	is($stdout, "1\n300000", 'and the session goes on');
	$node->stop;
}

# Three hundred sessions.
$node->start;
my $script = $node->basedir . '/wait.sql';
append_to_file($script, "SELECT sum(i) FROM numbers;\nSELECT pg_advisory_lock_shared(1);\n");
my $blocker = $node->background_psql('postgres', on_error_stop => 0);
$blocker->query_safe('SELECT pg_advisory_lock(1)');
my $out = '';
my $many = IPC::Run::start([ 'pgbench', '-n', '-c', 300, '-j', 2, '-t', 1, '-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ], '>&', \$out);
ok($node->poll_query_until('postgres', q{SELECT count(*) >= 300 FROM pg_stat_activity WHERE wait_event = 'advisory'}), 'three hundred sessions');
is($node->safe_psql('postgres', q{
	SELECT count(*), min(m.charged_bytes) > 1000000, max(m.charged_bytes) < 10000000
	FROM sift_memory_usage_backends m JOIN pg_stat_activity a USING (pid) WHERE a.wait_event = 'advisory'}),
	'300|t|t', 'each has its account');
is($node->safe_psql('postgres', q{
	SELECT abs(t.charged_bytes - b.bytes) < 5000000
	FROM sift_memory_usage_total t, (SELECT sum(coalesce(charged_bytes, shared_bytes, 0) + coalesce(free_heap_bytes, 0)) AS bytes FROM sift_memory_usage_backends) b}),
	't', 'and the total is their sum');
$blocker->query_safe('SELECT pg_advisory_unlock(1)');
$many->finish;
like($out, qr{processed: 300/300}, 'all of them work on');
$blocker->quit;
$node->stop;
done_testing();
