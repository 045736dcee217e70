# PgBouncer between clients and the server, in session and in transaction mode.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use IPC::Run;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'sift'
jit = off
autovacuum = off
work_mem = '1GB'
});
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION sift; CREATE EXTENSION sift_test;
	CREATE ROLE app LOGIN;
	ALTER ROLE app SET sift.memory_limit = '30MB';
	CREATE ROLE free LOGIN;
	-- keeps what lives as long as the session
	CREATE FUNCTION fill() RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		FOR p IN 1 .. 100000 LOOP
			EXECUTE format('PREPARE p%s AS SELECT %s', p, (SELECT string_agg(i::text, '+') FROM generate_series(1, 300) i));
		END LOOP;
	END $$;
	CREATE FUNCTION refused() RETURNS boolean LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM length(string_agg(repeat('x', 1000), '')) FROM generate_series(1, 100000);
		RETURN false;
	EXCEPTION WHEN out_of_memory THEN
		RETURN true;
	END $$});

my $folder = PostgreSQL::Test::Utils::tempdir_short();
append_to_file("$folder/users", qq{"app" ""\n"free" ""\n});
my $pooler;
sub pool_in
{
	my ($mode, $size) = @_;
	unlink "$folder/ini";
	append_to_file("$folder/ini", <<"INI");
[databases]
* = host=@{[$node->host]} port=@{[$node->port]}
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = $folder
auth_type = trust
auth_file = $folder/users
pool_mode = $mode
default_pool_size = $size
server_reset_query = DISCARD ALL
server_check_query = SELECT 1
server_check_delay = 0
INI
	$pooler = IPC::Run::start([ 'pgbouncer', '-q', "$folder/ini" ], '>>', "$folder/log", '2>>', "$folder/log");
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if -S "$folder/.s.PGSQL.6432";
		select undef, undef, undef, 0.1;
	}
	die 'the pooler does not start: ' . slurp_file("$folder/log");
}
sub end_pooler
{
	$pooler->signal('INT');
	$pooler->finish;
	undef $pooler;
}
END { local $?; $pooler->kill_kill if $pooler }
sub through { return "host=$folder port=6432 dbname=postgres user=$_[0]" }
sub client { return $node->safe_psql('postgres', $_[1], connstr => through($_[0])) }
sub fills
{
	my ($limit, $what, $set) = @_;
	my $stderr = ($node->psql('postgres', ($set // '') . 'SELECT fill()', connstr => through('app')))[2];
	like($stderr, qr/^psql:<stdin>:1: ERROR:  out of memory\nDETAIL:  .*\nHINT:  $limit kB/, $what);
}

# Session mode: DISCARD ALL follows each client.
pool_in('session', 1);
my $pid = client('app', 'SELECT pg_backend_pid()');
is(client('app', 'SHOW sift.memory_limit'), '30MB', 'ALTER ROLE reaches sessions behind a pooler');
fills('sift.memory_limit is 30720', 'a client fills its session');
is(client('app', 'SELECT pg_backend_pid()'), $pid, 'the next client gets the same session');
is(client('app', q{SELECT bytes < 6000000 FROM sift_memory_usage WHERE kind = 'server'}), 't', 'emptied');
fills('sift.memory_limit is 30720', 'and is filled again');
fills('sift.memory_limit is 10240', 'a client sets a limit of its own', q{SET sift.memory_limit = '10MB'; });
is(client('app', 'SHOW sift.memory_limit; SELECT pg_backend_pid()'), "30MB\n$pid", 'which ends with it');
client('app', q{SET sift.memory_limit = '2MB'});
is(client('app', 'SELECT pg_backend_pid()'), $pid, 'a limit below what is held does not keep the pooler from the session');
is(client('app', q{SELECT sift_test_keep('rows', 'SELECT i FROM generate_series(1, 10000) i')}), 10000, 'contexts of an extension');
is(client('app', q{SELECT row_bytes > 0 FROM sift_memory_usage_backends WHERE pid = pg_backend_pid()}), 't', 'live as long as the session, as they do without a pooler');
end_pooler();

# Transaction mode: what a client sets stays for whoever comes next.
pool_in('transaction', 1);
$pid = client('free', 'SELECT pg_backend_pid()');
is(client('free', q{BEGIN; SET LOCAL sift.memory_limit = '20MB'; SELECT refused(); COMMIT}), 't', 'SET LOCAL holds for a transaction');
is(client('free', 'SELECT refused()'), 'f', 'and not for the next');
client('free', q{SET sift.memory_limit = '20MB'});
is(client('free', 'SHOW sift.memory_limit; SELECT refused(), pg_backend_pid()'), "20MB\nt|$pid", 'SET reaches the next client');
client('free', 'RESET sift.memory_limit');
client('app', 'SET sift.memory_limit = -1');
is(client('app', 'SELECT refused()'), 'f', 'of a role with a limit, too');
$node->safe_psql('postgres', q{ALTER ROLE app SET sift.max_memory_limit = '30MB'});
end_pooler();

pool_in('transaction', 1);
client('app', 'SET sift.memory_limit = -1');
is(client('app', 'SELECT refused()'), 't', 'unless sift.max_memory_limit holds it');

# A session at its limit still answers what a pooler asks.
fills('sift.max_memory_limit is 30720', 'a session is filled');
is(client('app', 'SELECT 1'), 1, "the pooler's check");
is(client('app', 'BEGIN; SELECT 1; COMMIT'), 1, 'and transactions go on');
end_pooler();

# Many clients share two sessions; each refusal is that of the client that asked.
pool_in('transaction', 2);
append_to_file("$folder/large", "DO \$\$ BEGIN ASSERT refused(); END \$\$;\n");
append_to_file("$folder/small", "DO \$\$ BEGIN ASSERT (SELECT sum(i) FROM generate_series(1, 1000) i) = 500500; END \$\$;\n");
my $out = '';
ok(IPC::Run::run([ 'pgbench', '-n', '-c', 20, '-j', 2, '-t', 20, '-f', "$folder/large", '-f', "$folder/small", through('app') ], '>&', \$out), 'twenty clients')
  or diag($out);
like($out, qr{processed: 400/400}, 'each gets its own answers');
my ($refused) = $out =~ m{large\n.*? - (\d+) transactions}s;
is($node->safe_psql('postgres', q{SELECT sum(refusals), count(*), bool_and(charged_bytes < 30 * 1024 * 1024) FROM sift_memory_usage_backends WHERE usename = 'app'}),
	"$refused|2|t", 'and each refusal is counted once');
end_pooler();

unlike(slurp_file($node->logfile), qr/PANIC|FATAL|terminated by signal/, 'no session is lost');
$node->stop;
done_testing();
