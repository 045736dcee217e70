# What the server program takes by malloc: counted exactly, and all of it.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'sift'
max_prepared_transactions = 5
jit = off
max_parallel_workers_per_gather = 0
});
my $log_offset = -s $node->logfile || 0;
$node->start;
unlike(slurp_file($node->logfile, $log_offset), qr/sift/, 'nothing stands in the way, and no place is missed');
$node->safe_psql('postgres', 'CREATE EXTENSION sift; CREATE EXTENSION sift_test');

# Exact: after every statement of a mixed workload the count is within 1 % or
# 64 kB of what the C library says is in use.
my @workload = (
	q{CREATE TEMP TABLE t AS SELECT i, repeat('x', i % 200) AS x FROM generate_series(1, 100000) i},
	q{CREATE INDEX ON t (i)}, q{ANALYZE t},
	q{SELECT count(*) FROM (SELECT i % 50000, array_agg(x) FROM t GROUP BY 1) s},
	q{SELECT count(*) FROM t a JOIN t b USING (i)},
	q{SELECT length(string_agg(x, ',' ORDER BY x DESC)) FROM t},
	q{SELECT count(*) FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid},
	q{SELECT jsonb_array_length(jsonb_agg(t)) FROM t},
	q{DO $$ DECLARE a text[]; BEGIN FOR i IN 1..2000 LOOP a[i] := repeat('x', 1000); END LOOP; END $$},
	q{DO $$ BEGIN FOR i IN 1..300 LOOP BEGIN PERFORM 1 / (i % 3); EXCEPTION WHEN others THEN NULL; END; END LOOP; END $$},
	(map { "PREPARE p$_ AS SELECT count(*) FROM t WHERE i > \$1 AND x <> '$_'" } 1 .. 20),
	(map { "EXECUTE p$_(5)" } 1 .. 20),
	q{DEALLOCATE ALL}, q{SELECT 1 / 0}, q{SET timezone = 'Asia/Kathmandu'},
	q{SELECT count(*) FROM pg_timezone_names}, q{SELECT to_char(now(), 'TMDay') <> ''},
	q{BEGIN}, q{DECLARE c CURSOR WITH HOLD FOR SELECT * FROM t}, q{COMMIT}, q{CLOSE c},
	q{SET search_path = pg_catalog, public}, q{RESET ALL},
	q{CREATE TABLE d (a int PRIMARY KEY, b int REFERENCES d)}, q{DROP TABLE d}, q{DISCARD ALL});
sub differences
{
	my @differences = split /\n/, ($node->psql('postgres', join('', map {
		"$_ \\g /dev/null\nSELECT abs(sift_test_heap_difference()) / greatest(bytes / 100.0, 65536), sift_test_heap_difference() FROM sift_memory_usage WHERE kind = 'server';\n" } @_), on_error_stop => 0))[1];
	return @differences;
}
my @differences = differences(@workload);
is(scalar @differences, scalar @workload, 'a mixed workload is run');
is(join("\n", grep { (split /\|/)[0] > 1 } @differences), '', 'and counted exactly after every statement');

# No drift: over 100,000 statements the difference stays the same.
my @cycle = grep { !/generate_series|pg_timezone_names|300 LOOP|2000 LOOP|ANALYZE|BEGIN|COMMIT|CURSOR|CLOSE|GROUP|JOIN|agg/ } @workload[10 .. $#workload];
my $probe = "SELECT 'difference', sift_test_heap_difference();\n";
my $round = join('', map { "$_;\n" } @cycle);
my $rounds = int(100_000 / @cycle) + 1;
my $script = 'CREATE TEMP TABLE t AS SELECT i, i::text AS x FROM generate_series(1, 10) i;' . $round x 3
	. $probe . $round x $rounds . $probe;
my (undef, $out) = $node->psql('postgres', $script, on_error_stop => 0);
my ($first, $last) = map { (split /\|/)[1] } grep { /^difference/ } split /\n/, $out;
cmp_ok(abs($last - $first), '<', 65536, "no drift over @{[ $rounds * @cycle ]} statements");

# Complete: of a session that holds 64 MB or more nearly all is accounted,
# as seen by another session while it holds them.
$node->safe_psql('postgres', q{
CREATE TABLE wide AS SELECT i, repeat(md5(i::text), 8) AS x FROM generate_series(1, 300000) i;
CREATE TABLE parts (i int, x text) PARTITION BY HASH (i);
DO $$ BEGIN FOR i IN 0..999 LOOP
	EXECUTE format('CREATE TABLE parts_%s PARTITION OF parts FOR VALUES WITH (MODULUS 1000, REMAINDER %s)', i, i);
END LOOP; END $$;
CREATE FUNCTION hoard(what text) RETURNS int LANGUAGE plpgsql AS $f$
DECLARE a text[]; j jsonb;
BEGIN
	IF what = 'array' THEN FOR i IN 1..8000 LOOP a[i] := repeat('x', 10000); END LOOP; END IF;
	IF what = 'json' THEN j := (SELECT jsonb_agg(wide) FROM wide); END IF;
	PERFORM pg_advisory_lock(1);
	RETURN 1;
END $f$;
});
my %holds = (
	sort => "SET work_mem = '1GB'; BEGIN; DECLARE c CURSOR FOR SELECT * FROM wide ORDER BY x; FETCH 1 FROM c;",
	hash => "SET work_mem = '1GB'; BEGIN; DECLARE c CURSOR FOR SELECT * FROM wide a JOIN wide b USING (i); FETCH 1 FROM c;",
	hash_aggregate => "SET work_mem = '1GB'; BEGIN; DECLARE c CURSOR FOR SELECT i, array_agg(x) FROM wide GROUP BY i; FETCH 1 FROM c;",
	materialize => "SET work_mem = '1GB'; BEGIN; DECLARE c SCROLL CURSOR FOR WITH w AS MATERIALIZED (SELECT * FROM wide) SELECT * FROM w a, w b; FETCH 300000 FROM c;",
	array => "SELECT hoard('array');",
	json => "SELECT hoard('json');",
	plans => 'SET plan_cache_mode = force_generic_plan; '
		. join(' ', map { "PREPARE q$_(int) AS SELECT * FROM parts WHERE i = \$1 AND x <> '$_'; EXECUTE q$_(1);" } 1 .. 40));
my $blocker = $node->background_psql('postgres');
$blocker->query_safe('SELECT pg_advisory_lock(1)');
for my $what (sort keys %holds)
{
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	$session->query_until(qr/started/, "\\echo started\n\\o /dev/null\n$holds{$what}\n");
	# it holds what it will when it waits, for the lock or for the client
	$node->poll_query_until('postgres', "SELECT wait_event IN ('advisory', 'ClientRead') AND server_bytes > 64000000
		FROM pg_stat_activity JOIN sift_memory_usage_backends USING (pid) WHERE pid = $pid")
		or fail("$what holds 64 MB");
	my $share = $node->safe_psql('postgres',
		"SELECT accounted_share FROM sift_memory_usage_backends WHERE pid = $pid");
	cmp_ok($share, '>=', 0.96, "accounted share of $what: $share");
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid, 60000)");
	eval { $session->quit };
}
$blocker->quit;

# Every process with a slot is counted, and none of it is refused.
is($node->safe_psql('postgres', q{SELECT count(*) FROM sift_memory_usage_backends
		WHERE backend_type NOT IN ('postmaster', 'logger') AND server_bytes IS NULL}), 0,
	'the processes of the server are counted');

# Switched off, everything is left alone.
$node->append_conf('postgresql.conf', 'sift.account_server = off');
$node->restart;
is($node->safe_psql('postgres', q{SET sift.memory_limit = '10MB'; SELECT length(repeat('x', 100000000));
		SELECT bytes IS NULL FROM sift_memory_usage WHERE kind = 'server';
		SELECT count(*) FROM sift_memory_usage_backends
		WHERE server_bytes IS NOT NULL OR waived_bytes IS NOT NULL OR accounted_share IS NOT NULL OR free_heap_bytes IS NOT NULL}),
	"100000000\nt\n0", 'switched off: nothing is counted or limited');

# An allocator that replaces malloc and leaves the rest to the C library.
my $shim = $node->basedir . '/shim';
append_to_file("$shim.c", q{
#include <stddef.h>
void *__libc_malloc(size_t size);
void *malloc(size_t size) { return __libc_malloc(size); }
});
system_or_bail('cc', '-shared', '-fPIC', '-o', "$shim.so", "$shim.c");
$node->append_conf('postgresql.conf', 'sift.account_server = on');
$node->stop;
$log_offset = -s $node->logfile;
{
	local $ENV{LD_PRELOAD} = "$shim.so";
	$node->start;
}
like(slurp_file($node->logfile, $log_offset),
	qr/LOG:  sift cannot account for what the server program takes by malloc.*not of the same library/s,
	'where it cannot be done, the log has a line that says why');
is($node->safe_psql('postgres', q{SELECT bytes IS NULL FROM sift_memory_usage WHERE kind = 'server';
		SELECT sift_test_keep('rows', 'SELECT 1'); SELECT length(repeat('x', 10000000))}),
	"t\n1\n10000000", 'and everything else works');
$node->stop;

# Loaded into one session, it is counted and limited there.
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->start;
is($node->safe_psql('postgres', q{LOAD 'sift'; SET sift.memory_limit = '64MB';
		SELECT abs(sift_test_heap_difference()) < 65536}), 't', 'loaded by a session: counted');
like(($node->psql('postgres', q{LOAD 'sift'; SET sift.memory_limit = '64MB'; SELECT repeat('x', 100000000)}))[2],
	qr/out of memory.*HINT:  sift\.memory_limit is 65536 kB/s, 'loaded by a session: limited');
is($node->safe_psql('postgres', q{SELECT length(repeat('x', 100000000))}), 100000000, 'and no other session is');

$node->stop;
done_testing();
