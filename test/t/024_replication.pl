# Logical replication and autovacuum under limits from postgresql.conf: their
# processes are charged, and not refused what would break them off.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Less than what decoding and applying of one transaction needs.
my $settings = q{
shared_preload_libraries = 'sift'
sift.memory_limit = '4MB'
sift.max_memory_limit = '4MB'
logical_decoding_work_mem = '64MB'
maintenance_work_mem = '64MB'
autovacuum_naptime = 1
log_autovacuum_min_duration = 0
jit = off
};
my $unlimited = 'SET sift.max_memory_limit = -1; SET sift.memory_limit = -1;';
my ($publisher, $subscriber) = map { PostgreSQL::Test::Cluster->new($_) } qw(publisher subscriber);
$publisher->init(allows_streaming => 'logical');
$subscriber->init;
for my $node ($publisher, $subscriber)
{
	$node->append_conf('postgresql.conf', $settings);
	$node->start;
	$node->safe_psql('postgres', q{
		CREATE EXTENSION sift;
		CREATE TABLE t (i int PRIMARY KEY, v text)});
}
$publisher->safe_psql('postgres', q{
	INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 20000) i;
	CREATE PUBLICATION p FOR TABLE t});
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION s CONNECTION '" . $publisher->connstr . " dbname=postgres' PUBLICATION p");
$subscriber->wait_for_subscription_sync($publisher, 's');
my $count = q{SELECT count(*), sum(length(v)) FROM t};
is($subscriber->safe_psql('postgres', $count), '20000|20000000', 'the first copy');

# One transaction of 20 MB, which the publisher keeps until it commits.
$publisher->safe_psql('postgres', q{UPDATE t SET v = repeat(i::text, 200) WHERE i > 10000; DELETE FROM t WHERE i <= 5000});
$publisher->wait_for_catchup('s');
is($subscriber->safe_psql('postgres', $count), $publisher->safe_psql('postgres', $count), 'a large transaction');
$publisher->safe_psql('postgres', "$unlimited INSERT INTO t VALUES (0, repeat('y', 8000000))");
$publisher->wait_for_catchup('s');
is($subscriber->safe_psql('postgres', "$unlimited SELECT length(v) FROM t WHERE i = 0"), 8000000, 'a row larger than the limit');

my $of = q{SELECT bool_and(charged_bytes > 0), max(peak_bytes) > 4 * 1024 * 1024, sum(refusals)
	FROM sift_memory_usage_backends WHERE backend_type};
is($publisher->safe_psql('postgres', "$of = 'walsender'"), 't|t|0', 'a WAL sender is charged for more than the limit');
is($subscriber->safe_psql('postgres', "$of LIKE 'logical replication%worker'"), 't|t|0', 'an apply worker too');

# Autovacuum's workers are gone when they are done: their work shows it.
for my $node ($publisher, $subscriber)
{
	$node->poll_query_until('postgres', q{SELECT autovacuum_count > 0 AND autoanalyze_count > 0 FROM pg_stat_user_tables WHERE relname = 't'})
		or die 'no autovacuum';
	is($node->safe_psql('postgres', 'SELECT count(*) FROM sift_memory_refusals'), 0, $node->name . ': nothing refused');
	unlike(slurp_file($node->logfile), qr/out of memory/, $node->name . ': and nothing in the log');
}

# Users are.
like(($subscriber->psql('postgres', q{SELECT array_agg(v) FROM t}))[2], qr/ERROR:  out of memory/, 'a session is refused');
$subscriber->stop;
$publisher->stop;

done_testing();
