# Memory stays warm between statements, and goes back when the session idles.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'sift'
jit = off
autovacuum = off
work_mem = '2GB'
});
delete $ENV{GLIBC_TUNABLES};
delete $ENV{$_} for grep { /^MALLOC_/ } keys %ENV;
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION sift');
$node->safe_psql('postgres', 'CREATE DATABASE other');

# 600 MB, in pieces of no more than some MB
my $rows = q{WITH m AS MATERIALIZED (SELECT repeat('x', 1000) FROM generate_series(1, 500000) i)};
my $holds = "$rows SELECT count(*) = 500000 FROM m";
my $own = q{SELECT %s FROM sift_memory_usage_backends WHERE pid = pg_backend_pid()};

sub private
{
	my ($pid) = @_;
	my ($kb) = slurp_file("/proc/$pid/status") =~ /^RssAnon:\s+(\d+)/m;
	return $kb * 1024;
}

# The most private memory that a process had, kB, or more.
sub peak
{
	my ($pid) = @_;
	my $status = slurp_file("/proc/$pid/status");
	my ($peak, $file, $shmem) = map { $status =~ /^$_:\s+(\d+)/m } qw(VmHWM RssFile RssShmem);
	return $peak - $file - $shmem;
}

# Wait until the private memory of a process is at most that.
sub falls_to
{
	my ($pid, $bytes) = @_;
	for (1 .. 1800)
	{
		return 1 if private($pid) <= $bytes;
		usleep(100_000);
	}
	return 0;
}

my $session = $node->background_psql('postgres', on_error_stop => 0);
my $pid = $session->query_safe('SELECT pg_backend_pid()');
$session->query_safe('SELECT count(*) FROM pg_class');
my $before = private($pid);

# In one message, so that the session is not idle in between.
is($session->query_safe("BEGIN \\; $holds \\; COMMIT \\; " . sprintf($own, 'free_heap_bytes > 400000000')), "t\nt", 'what was held is kept');
ok(falls_to($pid, $before + 4 * 1024 * 1024), 'and goes back when the session idles');
my $sum = $session->query_safe(sprintf($own, 'free_heap_bytes < 1000000'));
is($sum, 't', 'the view says so');

# So it does after an error, and after a failed transaction, with one error
# and with another one in it.
$session->query("$rows SELECT 1 / (count(*) - 500000) FROM m");
ok(falls_to($pid, $before + 4 * 1024 * 1024), 'after an error');
$session->query('BEGIN');
$session->query("$rows SELECT 1 / (count(*) - 500000) FROM m");
$session->query('ROLLBACK');
ok(falls_to($pid, $before + 4 * 1024 * 1024), 'after a failed transaction');
$session->query('BEGIN');
$session->query($_) for $holds, 'SELECT 1 / 0', 'SELECT 1', 'ROLLBACK';
ok(falls_to($pid, $before + 4 * 1024 * 1024), 'after a second error in it');

# That costs one transaction, and none after that.  What a session commits is
# seen when it has been told to send its statistics.
my $commits = q{SELECT xact_commit FROM pg_stat_database WHERE datname = 'other'};
my $other = $node->background_psql('other', on_error_stop => 0);
my $other_pid = $other->query_safe('SELECT pg_backend_pid()');
$other->query_safe('SELECT count(*) FROM pg_class');
my $fresh = private($other_pid);
$other->query_safe('SELECT pg_stat_force_next_flush()');
$other->query_safe('SELECT 1');
my $first = $node->safe_psql('postgres', $commits);
$other->query_safe($holds);
ok(falls_to($other_pid, $fresh + 4 * 1024 * 1024), 'another session');
$node->safe_psql('postgres', 'SELECT pg_sleep(3)');
$other->query_safe('SELECT pg_stat_force_next_flush()');
$other->query_safe('SELECT 1');
# what holds memory, the trim, and the two that make it known
cmp_ok($node->safe_psql('postgres', $commits) - $first, '<=', 4, 'an idle period costs one transaction');
$other->quit;

$session->{stderr} = '';
# A session that works gives back what it has not needed for a while.
$session->query_safe($holds);
my $busy = 0;
for (1 .. 300)
{
	last if private($pid) < $before + 80 * 1024 * 1024;
	$session->query_safe('SELECT 1');
	$busy++;
	usleep(20_000);
}
cmp_ok($busy, '<', 300, 'memory goes back while the session works');

# sift_trim() gives all back at once, and says how much.
my $trimmed = $session->query_safe("BEGIN \\; $holds \\; COMMIT \\; SELECT sift_trim()");
$trimmed =~ s/^t\n//;
cmp_ok($trimmed, '>', 400_000_000, 'sift_trim says how many bytes');
cmp_ok(private($pid), '<', $before + 4 * 1024 * 1024, 'and they are gone');
is($session->query_safe('SELECT sift_trim()') < 1_000_000, 1, 'no more the next time');
$session->quit;

# What a session holds and keeps does not pass its limit by much.
my $limited = $node->background_psql('postgres', on_error_stop => 0);
$pid = $limited->query_safe('SELECT pg_backend_pid()');
$limited->query_safe(q{SET sift.memory_limit = '100MB'});
$limited->query_safe(q{DO $$ DECLARE a text[]; BEGIN
	FOR size IN 1..30 LOOP
		a := NULL;
		FOR i IN 1..40000 / size LOOP a[i] := repeat('x', 1000 * size); END LOOP;
	END LOOP; END $$});
cmp_ok(peak($pid), '<', (100 + 24) * 1024, 'charged and kept together stay within the limit');
$limited->quit;

# Nor does a large piece that is made longer, beside another one.
$limited = $node->background_psql('postgres', on_error_stop => 0);
$pid = $limited->query_safe('SELECT pg_backend_pid()');
$limited->query_safe(q{SET sift.memory_limit = '400MB'});
is($limited->query_safe(q{SELECT length(string_agg(repeat('x', 1000), '')) FROM generate_series(1, 130000)}), 130000000, 'a long text');
cmp_ok(peak($pid), '<', (400 + 24) * 1024, 'a piece that is made longer is not copied');
$limited->quit;
$node->stop;

# Whoever tunes the C library has it as he tuned it; and off is off.
sub is_left_alone
{
	my ($how) = @_;
	is($node->safe_psql('postgres', "$holds; SELECT coalesce(free_heap_bytes, 0) < 100000000 AND rss_anon_bytes < 100000000 FROM sift_memory_usage_backends WHERE pid = pg_backend_pid()"),
		"t\nt", "$how: memory is not kept");
	unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'the server is whole');
}
{
	local $ENV{MALLOC_ARENA_MAX} = 1;
	$node->start;
	is_left_alone('MALLOC_ARENA_MAX');
	$node->stop;
}
{
	local $ENV{GLIBC_TUNABLES} = 'glibc.malloc.arena_max=1';
	$node->start;
	is_left_alone('GLIBC_TUNABLES');
	$node->stop;
}
{
	local $ENV{GLIBC_TUNABLES} = 'glibc.rtld.optional_static_tls=1024';
	$node->start;
	is($node->safe_psql('postgres', "BEGIN \\; $holds \\; COMMIT \\; " . sprintf($own, 'free_heap_bytes > 400000000')), "t\nt", 'a tunable that is not malloc\'s: memory is kept');
	$node->stop;
}
$node->append_conf('postgresql.conf', 'sift.account_server = off');
$node->start;
is_left_alone('sift.account_server = off');
$node->stop;
done_testing();
