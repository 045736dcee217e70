# The limits that Sift recommends: where the memory is read, and the rule.
use strict;
use warnings;
use File::Path qw(make_path);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'sift'
max_connections = 40
huge_pages = off
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION sift; CREATE EXTENSION sift_test; CREATE ROLE somebody LOGIN; CREATE ROLE monitor LOGIN IN ROLE pg_monitor');

# What a machine with these files has.
sub memory_of
{
	my (%files) = @_;
	my $root = PostgreSQL::Test::Utils::tempdir;
	while (my ($path, $text) = each %files)
	{
		make_path($root . $path =~ s|/[^/]*$||r);
		append_to_file("$root$path", $text);
	}
	return $node->safe_psql('postgres', "SELECT sift_test_machine_memory('$root')");
}

my %machine = ('/proc/meminfo' => "MemFree: 5 kB\nMemTotal:       16384 kB\nSwapTotal: 9 kB\n");
my $v1 = '/sys/fs/cgroup/memory';
my $v2 = '/sys/fs/cgroup';
is(memory_of(%machine), '16777216 /proc/meminfo', 'a machine');
is(memory_of(), '-1 /proc/meminfo', 'nothing is known');
is(memory_of(%machine, '/proc/self/cgroup' => "0::/\n"), '16777216 /proc/meminfo', 'the topmost group has no limit');
is(memory_of(%machine, '/proc/self/cgroup' => "0::/a/b\n", "$v2/a/b/memory.max" => "max\n", "$v2/a/memory.max" => "8388608\n"),
	"8388608 $v2/a/memory.max", 'a limit of the group above');
is(memory_of(%machine, '/proc/self/cgroup' => "0::/a/b\n", "$v2/a/b/memory.max" => "4194304\n", "$v2/a/memory.max" => "8388608\n"),
	"4194304 $v2/a/b/memory.max", 'the least limit binds');
is(memory_of(%machine, '/proc/self/cgroup' => "0::/\n", "$v2/memory.max" => "8388608\n"),
	"8388608 $v2/memory.max", 'a container');
is(memory_of(%machine, '/proc/self/cgroup' => "0::/../../host.slice\n", "$v2/memory.max" => "8388608\n"),
	"8388608 $v2/memory.max", 'a container that knows its name outside');
is(memory_of(%machine, '/proc/self/cgroup' => "0::/a\n", "$v2/a/memory.max" => "99999999999\n"),
	'16777216 /proc/meminfo', 'a limit above the memory');
is(memory_of(%machine, '/proc/self/cgroup' => "5:cpu:/x\n4:cpuset,memory:/a\n1:name=systemd:/\n0::/\n",
		"$v1/a/memory.limit_in_bytes" => "8388608\n", "$v1/memory.limit_in_bytes" => "9223372036854771712\n",
		"$v1/x/memory.limit_in_bytes" => "1\n"),
	"8388608 $v1/a/memory.limit_in_bytes", 'version 1');
is(memory_of(%machine, '/proc/self/cgroup' => "what\n::\n4:memory\n0::" . 'x' x 3000 . "\n", "$v2/memory.max" => 'x'),
	'16777216 /proc/meminfo', 'files that make no sense');
is($node->safe_psql('postgres', q{SELECT bytes <= pg_size_bytes(memtotal) FROM sift_machine_memory(),
		substring(pg_read_file('/proc/meminfo') FROM 'MemTotal: *(\d+ kB)') memtotal}),
	't', 'this machine');

# The rule: the steps add up, to a MB each for rounding.
is($node->safe_psql('postgres', q{
	WITH r AS MATERIALIZED (SELECT name, pg_size_bytes(value) / 1048576 AS mb, how FROM sift_recommended_limits()),
	     v AS (SELECT max(mb) FILTER (WHERE name = 'memory') AS memory,
	                  max(mb) FILTER (WHERE name = 'page tables') AS page_tables,
	                  sum(mb) FILTER (WHERE name IN ('shared memory', 'page tables', 'outside of the accounts', 'reserve')) AS taken,
	                  max(mb) FILTER (WHERE name = 'sift.total_memory_limit') AS total,
	                  max(mb) FILTER (WHERE name = 'sift.max_memory_limit') AS most,
	                  max(mb) FILTER (WHERE name = 'sift.memory_limit') AS session FROM r)
	SELECT memory = (SELECT bytes / 1048576 FROM sift_machine_memory()), memory - taken - total BETWEEN 0 AND 5,
	       page_tables = (SELECT sum(setting::int8)::int8 FROM pg_settings WHERE name IN
	         ('max_connections', 'autovacuum_max_workers', 'max_worker_processes', 'max_wal_senders'))
	         * pg_size_bytes(current_setting('shared_memory_size')) / 512 / 1048576,
	       most = total / 2, session = least(most, greatest(total / 8, 128)) FROM v}),
	't|t|t|t|t', 'the total is the memory less what is taken, and a session has its share');
my %recommended = map { split /\|/ } split /\n/,
	$node->safe_psql('postgres', q{SELECT name, value FROM sift_recommended_limits() WHERE name LIKE 'sift.%'});
is(scalar(keys %recommended), 3, 'three limits');
$node->safe_psql('postgres', "ALTER SYSTEM SET $_ = '$recommended{$_}'") for keys %recommended;
$node->reload;
is($node->safe_psql('postgres', "SELECT pg_size_bytes(current_setting('$_')) = pg_size_bytes('$recommended{$_}')"), 't', "$_ can be set as it is")
	for sort keys %recommended;

# One session has needed more than an eighth.
my $session = $node->background_psql('postgres');
$session->query_safe(q{SET sift.memory_limit = -1; SELECT length(repeat('x', 800000000))});
is($node->safe_psql('postgres', q{
	WITH r AS MATERIALIZED (SELECT name, pg_size_bytes(value) AS bytes FROM sift_recommended_limits())
	SELECT (SELECT bytes FROM r WHERE name = 'sift.memory_limit') >= least((SELECT bytes FROM r WHERE name = 'sift.max_memory_limit'), 1000000000)}),
	't', 'a session is given what one has needed');
$session->quit;

# Too little memory for the connections.
my $eighth = $node->safe_psql('postgres', 'SELECT bytes / 8 / 1048576 FROM sift_machine_memory()');
$node->append_conf('postgresql.conf', "max_connections = 5000\nshared_buffers = ${eighth}MB");
$node->restart;
is($node->safe_psql('postgres', q{SELECT count(*), count(value), bool_or(how LIKE '%lower max_connections%') FROM sift_recommended_limits() WHERE name LIKE 'sift.%'}),
	'3|0|t', 'there may be none to recommend');

# Who may ask.
my $stderr = ($node->psql('postgres', 'SELECT * FROM sift_recommended_limits()', extra_params => [ '-U', 'somebody' ]))[2];
like($stderr, qr/permission denied for function sift_recommended_limits/, 'not everyone');
is($node->safe_psql('postgres', 'SELECT count(*) FROM sift_recommended_limits()', extra_params => [ '-U', 'monitor' ]), 8, 'pg_monitor');

done_testing();
