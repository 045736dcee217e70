# Memory trouble that people reported, each reproduced in test/cases under a
# limit of 256 MB.
#
# A case has a part "@setup" and a part "@run", which has a session of its own.
# "@ends" says how that must end: refused with 53200, caught by the statement's
# own handlers, passed, or either ("refused on 15" is either on later versions,
# which take less there); and "outside" that the memory is a library's
# or a worker's, which the limit does not reach.  Cases marked "@slow" are run with SIFT_TEST_CASES=all; a list of
# names runs those.
use strict;
use warnings;
use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $wanted = $ENV{SIFT_TEST_CASES} || '';
my $allowed = 24 * 1024 * 1024;
my $limit = 256 * 1024 * 1024;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 'logical');
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'sift'
max_locks_per_transaction = 1000
shared_buffers = 64MB
max_wal_size = 4GB
autovacuum = off
});
$node->start;

# The largest private memory of a process while a program runs.
sub watch
{
	my ($harness, $pid_file) = @_;
	my ($most, $pid) = (0, 0);
	while ($harness->pumpable)
	{
		$harness->pump_nb;
		$pid = slurp_file($pid_file) if !$pid && -s $pid_file;
		if ($pid && open(my $status, '<', "/proc/" . int($pid) . "/status"))
		{
			while (<$status>) { $most = $1 * 1024 if /^RssAnon:\s+(\d+)/ && $1 * 1024 > $most }
			close $status;
		}
		usleep(3000);
	}
	$harness->finish;
	return $most;
}

my $major = int($node->safe_psql('postgres', 'SHOW server_version_num') / 10000);
my $left_out = 0;
for my $file (sort glob(dirname(__FILE__) . '/../cases/*.sql'))
{
	my $name = basename($file, '.sql');
	my $case = slurp_file($file);
	my ($ends) = $case =~ /^-- \@ends (.*)$/m or die "$name does not say how it ends";
	my ($setup, $run) = $case =~ /^-- \@setup\n(.*)^-- \@run\n(.*)/ms or die "$name has no such parts";
	if ($wanted eq '' ? $case =~ /^-- \@slow/m : $wanted ne 'all' && $wanted !~ /\b$name\b/)
	{
		$left_out++;
		next;
	}
	if ($setup =~ /CREATE EXTENSION (\w+)/ && !$node->safe_psql('postgres', "SELECT count(*) FROM pg_available_extensions WHERE name = '$1'"))
	{
		$left_out++;
		next;
	}
	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql($name, "CREATE EXTENSION sift;\n$setup");

	my $pid_file = $node->basedir . "/$name.pid";
	my $script = "\\o $pid_file\nSELECT pg_backend_pid();\n\\o\n\\set VERBOSITY verbose\n$run\n;ROLLBACK;\nSELECT 'alive';\n"
		. "SELECT 'peak', peak_bytes FROM sift_memory_usage_backends WHERE pid = pg_backend_pid();\n"
		. "SELECT 'on record' FROM sift_memory_refusals WHERE pid = pg_backend_pid() LIMIT 1;\n"
		. "DEALLOCATE ALL; CLOSE ALL; SELECT count(*) > 0 FROM sift_memory_usage_backends; SET sift.memory_limit = -1; SELECT 'end';\n";
	my ($out, $err) = ('', '');
	local $ENV{PGOPTIONS} = '-c sift.memory_limit=256MB';
	my $file_to_run = $node->basedir . "/$name.sql";
	append_to_file($file_to_run, $script);
	my $harness = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr($name), '-f', $file_to_run ], '<', \undef, '>', \$out, '2>', \$err);
	my $most = watch($harness, $pid_file);

	like($out, qr/^alive\n.*^end\n/ms, "$name: the session is alive");
	# a statement that was not prepared cannot be deallocated either (26000)
	my @others = grep { !/ERROR:  (53200|57014|25P02|25P01|26000)/ } grep { /ERROR|FATAL|PANIC/ } split /\n/, $err;
	is(join("\n", @others), '', "$name: no other error than out of memory");
	if ($ends =~ /refused/ && ($ends !~ /refused on (\d+)/ || $1 == $major))
	{
		like($err, qr/ERROR:  53200.*^HINT:  sift\.memory_limit is 262144 kB; held are/ms, "$name: is refused, with the hint");
		like($out, qr/^on record$/m, "$name: the refusal is on record");
	}
	like($out, qr/^on record$/m, "$name: the refusal is on record") if $ends =~ /caught/;
	unlike($err, qr/ERROR/, "$name: passes") if $ends =~ /passes/;
	my ($peak) = $out =~ /^peak\|(\d+)$/m;
	ok(defined $peak && $peak < $limit + $allowed, "$name: what was charged") if $ends !~ /outside/;
	cmp_ok($most, '<', $limit + $allowed, sprintf('%s: most private memory %d MB', $name, $most / 1048576)) if $ends !~ /outside/;
	note(sprintf('%s: most private memory %d MB', $name, $most / 1048576));
	$node->safe_psql('postgres', "DROP DATABASE $name");
}
note("$left_out slow cases are left out") if $left_out;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'the server is whole');
$node->stop;
done_testing();
