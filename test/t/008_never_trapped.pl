# A session far above its limit can still do what gets it out of there, and
# what it keeps is bounded.
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
});
$node->start;
$node->safe_psql('postgres', q{CREATE EXTENSION sift; CREATE TABLE t AS SELECT i, i::text AS x FROM generate_series(1, 1000) i;
	CREATE ROLE limited LOGIN; GRANT ALL ON t TO limited});

sub run
{
	my ($sql, %options) = @_;
	my ($ret, $stdout, $stderr) = $node->psql('postgres', $sql, on_error_stop => 0, %options);
	return ($stdout, $stderr);
}

# 30 MB of prepared statements, cursors and a setting, then the limit.
my $hoard = q{SET plan_cache_mode = force_generic_plan; LISTEN news;
	BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT i, repeat(x, 100) FROM t; COMMIT;
	}
	. join('', map { "PREPARE p$_(int) AS SELECT " . join(' + ', map { "\$1 * $_" } 1 .. 300) . "; \n" } 1 .. 150);
my @works = ('SHOW sift.memory_limit', 'SELECT 1', 'SET application_name = $$me$$', 'RESET application_name',
	'BEGIN; SELECT 1; COMMIT', 'BEGIN; SAVEPOINT s; SELECT 1; ROLLBACK TO s; RELEASE s; ROLLBACK',
	'BEGIN; SELECT 1/0; ROLLBACK', 'SELECT count(*) > 0 FROM sift_memory_usage', 'SELECT count(*) > 0 FROM sift_memory_usage_backends',
	'SELECT count(*) FROM sift_memory_usage_contexts', 'SELECT count(*) >= 0 FROM sift_memory_refusals', 'SELECT sift_trim() >= 0',
	'SELECT current_database(), current_user, version()', 'SELECT pg_is_in_recovery()', 'SHOW transaction_read_only',
	'SELECT set_config($$search_path$$, $$public$$, false)', 'SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE',
	'DEALLOCATE p1', 'CLOSE h', 'UNLISTEN *', 'DISCARD TEMP', 'DISCARD PLANS', 'DEALLOCATE ALL', 'CLOSE ALL',
	'SELECT pg_advisory_unlock_all()', 'DISCARD ALL', 'SELECT 1');
for my $limit ('0', '1kB', '1MB', '4MB')
{
	my ($stdout, $stderr) = run($hoard . "SELECT charged_bytes > 10000000 FROM sift_memory_usage_backends WHERE pid = pg_backend_pid();\n"
		. "SET sift.memory_limit = '$limit';\n\\echo here\n" . join(";\n", @works)
		. ";\nSET sift.memory_limit = '$limit';\nSET sift.memory_limit = -1;\nSELECT length(repeat('x', 50000000))");
	my ($before, $after) = split /here\n/, $stdout;
	is($before, "t\n", "more than 10 MB are held (limit $limit)");
	is(join("\n", grep { !/division by zero/ } grep { /ERROR|FATAL/ } split /\n/, $stderr), '', 'everything that a session must be able to do works');
	like($after, qr/50000000$/, 'and it has a way out');

	# a session that starts with the limit
	($stdout, $stderr) = run(join(";\n", @works[0 .. 16]) . '; SELECT $$end$$', extra_params => [ '-d', "options='-c sift.memory_limit=$limit'" ]);
	like($stderr, qr/^(.*division by zero.*)?$/, "started with limit $limit");
	like($stdout, qr/end$/, 'the session works');
	$node->safe_psql('postgres', "ALTER ROLE limited SET sift.max_memory_limit = '$limit'");
	($stdout, $stderr) = run("SELECT 1; SELECT count(*) FROM t; SELECT sum(i) FROM t; SELECT 1", extra_params => [ '-U', 'limited' ]);
	is("$stdout$stderr", "1\n1000\n500500\n1", 'also under a superuser\'s limit');
}

# A session that is above its limit goes on answering simple queries on more
# and more tables: the caches are dropped when they do not fit.
$node->safe_psql('postgres', join('', map { "CREATE TABLE w$_ (" . join(',', map { "c$_ int" } 1 .. 50) . ");" } 1 .. 200));
my ($stdout, $stderr) = run("SET sift.memory_limit = '1MB';" . join('', map { "SELECT count(*) FROM w$_;\n" } 1 .. 200));
is(scalar(() = $stderr =~ /ERROR/g), 0, 'at a limit of 1 MB two hundred tables can be read') or diag(substr($stderr, 0, 500));

# What is kept is bounded: base and two floats.  In one statement after the
# other, and in one transaction of pipelined messages.
my $pile = join('', map { "PREPARE a$_ AS SELECT " . join('+', 1 .. 200) . ";\n" } 1 .. 1000);
($stdout, $stderr) = run("SET sift.memory_limit = '16MB';\n$pile"
	. "SELECT bytes < 18 * 1024 * 1024 FROM sift_memory_usage WHERE kind = 'server';\nDEALLOCATE ALL;\n"
	. "SELECT bytes < 8 * 1024 * 1024 FROM sift_memory_usage WHERE kind = 'server';\nSELECT 'works'");
like($stdout, qr/t\nworks$/, 'a thousand prepared statements: DEALLOCATE ALL works, and what comes after');
unlike($stdout, qr/f/, 'and no more is kept than the limit and two floats');
like($stderr, qr/DETAIL:  This session kept \d+ kB when the statement began\.\nHINT:  sift\.memory_limit is 16384 kB.*SET, RESET, SHOW/s,
	'a statement is refused that would keep more');

# The same below the limit's base: a session that held much more when it got
# its limit may keep that, not more, and less once it has less.
($stdout, $stderr) = run($pile . "SET sift.memory_limit = '4MB'; SELECT 'held', bytes FROM sift_memory_usage WHERE kind = 'server';\n" . ($pile =~ s/PREPARE a/PREPARE b/gr)
	. "SELECT 'kept', bytes FROM sift_memory_usage WHERE kind = 'server';\nDEALLOCATE ALL; SELECT 'less', bytes FROM sift_memory_usage WHERE kind = 'server';\n$pile;\nSELECT 'again', bytes FROM sift_memory_usage WHERE kind = 'server'");
my %bytes = $stdout =~ /^(held|kept|less|again)\|(\d+)$/mg;
cmp_ok($bytes{held}, '>', 10_000_000, 'a session that held more when it got its limit');
cmp_ok($bytes{kept}, '<', $bytes{held} + 2_200_000, 'may keep that, and no more than two floats above');
like($stderr, qr/This session kept/, 'then statements are refused');
cmp_ok($bytes{less}, '<', 4_000_000, 'once it has less');
cmp_ok($bytes{again}, '<', 4 * 1024 * 1024 + 2_200_000, 'it may keep no more than two floats above the limit');

unlike(slurp_file($node->logfile), qr/PANIC|TRAP|FATAL|terminated by signal/, 'the server is whole');
$node->stop;
done_testing();
