# Random operations on many contexts, and on a row store, compared with a model.
#
# SIFT_TEST_OPERATIONS: how many (default 100,000); SIFT_TEST_SEED: the seed
# to repeat a run.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $operations = $ENV{SIFT_TEST_OPERATIONS} || 100_000;
my $seed = $ENV{SIFT_TEST_SEED} || int(rand(1_000_000_000));
diag("seed $seed, $operations operations");

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
# What the server takes is no part of the model.
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'sift'\nsift.account_server = off");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION sift; CREATE EXTENSION sift_test');

# Without a limit, under one that refuses now and then, and under a tight one.
my @runs = ([ '-1', 0.6, 0 ], [ '100MB', 0.3, 1 ], [ '3MB', 0.1, 1 ]);
for my $run (@runs)
{
	my ($limit, $share, $refused) = @$run;
	my $result = $node->safe_psql('postgres', sprintf(
		"SET sift.memory_limit = '%s'; SELECT sift_test_random(%d, %d, 500000000)",
		$limit, $seed, $operations * $share));
	like($result, $refused ? qr/ [1-9]\d* refused/ : qr/ 0 refused/, "limit $limit: $result");
}
# Row stores likewise.
for my $run ([ '-1', 0.6, 20000, 0 ], [ '3MB', 0.3, 20000, 1 ], [ '1MB', 0.05, 5000, 1 ])
{
	my ($limit, $share, $rows, $refused) = @$run;
	my $result = $node->safe_psql('postgres', sprintf(
		"SET sift.memory_limit = '%s'; SELECT sift_test_store_random(%d, %d, %d)",
		$limit, $seed, $operations * $share, $rows));
	like($result, $refused ? qr/ [1-9]\d* refused/ : qr/ 0 refused/, "row store, limit $limit: $result");
}
unlike(slurp_file($node->logfile), qr/problem in Sift context|past chunk end|PANIC|TRAP/,
	'the log tells of nothing amiss');
done_testing();
