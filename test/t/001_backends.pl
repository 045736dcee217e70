# The view over all backends: what one session holds is seen by another, and
# is gone when that session ends.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'sift'
sift.memory_limit = '300MB'
logging_collector = on
max_parallel_workers_per_gather = 2
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION sift; CREATE EXTENSION sift_test');

sub backend
{
	my ($columns, $pid) = @_;
	return $node->safe_psql('postgres',
		"SELECT $columns FROM sift_memory_usage_backends WHERE pid = $pid");
}

# Every process of the server is there, once.
my $listed = $node->safe_psql('postgres',
	'SELECT pid FROM sift_memory_usage_backends WHERE pid <> pg_backend_pid() ORDER BY pid');
my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
my @children = split /\s+/, `ps -o pid= --ppid $postmaster`;
is($listed, join("\n", sort { $a <=> $b } grep { /\d/ } $postmaster, @children),
	'every process of the server is shown, once');
# (one that is just ending has no memory any more)
ok($node->poll_query_until('postgres', q{SELECT bool_and(rss_bytes > 0 AND rss_anon_bytes > 0 AND peak_rss_bytes >= rss_bytes
		  AND outside_bytes BETWEEN 0 AND rss_anon_bytes) FROM sift_memory_usage_backends}),
	'figures from the system are there for every process');
is($node->safe_psql('postgres', q{SELECT count(*) FROM sift_memory_usage_backends
		WHERE backend_type IN ('postmaster', 'logger') AND charged_bytes IS NULL}),
	2, 'the postmaster and the logger have no account');

# A session that holds rows is seen by another.
my $holder = $node->background_psql('postgres', on_error_stop => 0);
my $pid = $holder->query_safe('SELECT pg_backend_pid()');
is(backend('limit_bytes, row_bytes, charged_bytes = server_bytes', $pid), 300 * 1024 * 1024 . '|0|t',
	'a session shows its limit before it has a context');
$holder->query_safe('SET sift.memory_limit = $$100MB$$');
$holder->query_safe(q{SELECT sift_test_keep('rows', 'SELECT i, repeat($$x$$, 100) FROM generate_series(1, 200000) i')});
is(backend(q{backend_type, datname, limit_bytes, row_bytes + large_bytes > 25000000,
		charged_bytes = row_bytes + batch_bytes + large_bytes + idle_bytes + server_bytes,
		peak_bytes >= charged_bytes, rss_anon_bytes > charged_bytes * 0.9,
		outside_bytes < 20000000, refusals}, $pid),
	'client backend|postgres|' . 100 * 1024 * 1024 . '|t|t|t|t|t|0',
	'its account is seen by another session');
is(backend('shared_bytes = 0 AND waived_bytes = 0 AND accounted_share > 0.7', $pid),
	't', 'nothing is outside');

# Resident memory falls when it is trimmed.
my $resident = backend('rss_anon_bytes', $pid);
$holder->query_safe(q{SELECT sift_test_drop('rows')});
my $trimmed = $holder->query_safe('SELECT sift_trim()');
is(backend('charged_bytes - server_bytes', $pid), 0, 'no block of Sift is charged after a trim');
cmp_ok(backend('rss_anon_bytes', $pid), '<', $resident - 20_000_000,
	"resident memory has fallen after a trim");

# A refusal is counted where others see it.
$holder->query_safe('SET sift.memory_limit = $$5MB$$');
$holder->query(q{SELECT sift_test_keep('rows', 'SELECT i FROM generate_series(1, 200000) i')});
is(backend('refusals, charged_bytes <= limit_bytes', $pid), '1|t', 'a refusal is counted');

# The slot is free when the session has ended, however it ended.
$holder->quit;
$node->poll_query_until('postgres',
	"SELECT NOT EXISTS (SELECT FROM sift_memory_usage_backends WHERE pid = $pid)");
my $terminated = $node->background_psql('postgres', on_error_stop => 0);
$pid = $terminated->query_safe('SELECT pg_backend_pid()');
$terminated->query_safe(q{SELECT sift_test_keep('rows', 'SELECT i FROM generate_series(1, 200000) i')});
cmp_ok(backend('row_bytes', $pid), '>', 1_000_000, 'rows are kept');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid, 60000)");
is(backend('count(*)', $pid), 0, 'a terminated session is gone');
is($node->safe_psql('postgres', 'SELECT sum(charged_bytes - server_bytes) FROM sift_memory_usage_backends'),
	0, 'and nothing is left of its account');
eval { $terminated->quit };

# Parallel workers show their leader.
$node->safe_psql('postgres', q{
CREATE TABLE big AS SELECT i FROM generate_series(1, 1000) i;
CREATE FUNCTION wait_for(key int8) RETURNS void LANGUAGE plpgsql PARALLEL SAFE AS $$
BEGIN
	WHILE (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = key AND granted) > 0 LOOP
		PERFORM pg_sleep(0.05);
	END LOOP;
END $$;
});
my $lock = $node->background_psql('postgres');
$lock->query_safe('SELECT pg_advisory_lock(1)');
my $leader = $node->background_psql('postgres');
$pid = $leader->query_safe('SELECT pg_backend_pid()');
$leader->query_safe('SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET parallel_leader_participation = off');
$leader->query_until(qr/started/, "\\echo started\nSELECT count(*) FROM big WHERE wait_for(1) IS NOT NULL;\n");
my $worker = $node->poll_query_until('postgres',
	"SELECT count(*) > 0 FROM sift_memory_usage_backends WHERE leader_pid = $pid AND backend_type = 'parallel worker'");
ok($worker, 'a parallel worker shows its leader');
is($node->safe_psql('postgres', "SELECT DISTINCT limit_bytes FROM sift_memory_usage_backends WHERE leader_pid = $pid"),
	300 * 1024 * 1024, 'and the limit that it has from its leader');
$lock->quit;
$leader->quit;

$node->stop;
done_testing();
