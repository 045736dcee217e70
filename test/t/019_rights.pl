# Limits that others have set: who may lift them, and what a user tries in vain.
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
});
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION sift;
	CREATE ROLE limited LOGIN;
	CREATE ROLE trusted LOGIN;
	CREATE ROLE team;
	GRANT team TO limited;
	GRANT SET ON PARAMETER sift.max_memory_limit TO trusted;
	GRANT CREATE ON SCHEMA public TO limited;
	CREATE DATABASE other;
	ALTER ROLE limited SET sift.max_memory_limit = '20MB';
	ALTER ROLE limited IN DATABASE other SET sift.max_memory_limit = '30MB';
	CREATE FUNCTION large() RETURNS int LANGUAGE sql AS $$SELECT length(string_agg(repeat('x', 1000), '')) FROM generate_series(1, 40000)$$});

my $superuser = $node->safe_psql('postgres', 'SELECT current_user');
my $is_20MB = 'HINT:  sift\.max_memory_limit is 20480 kB';

# as USER, STATEMENTS, DATABASE: what is printed, errors by their SQLSTATE among it
sub as
{
	my ($user, $statements, $database, %params) = @_;
	my ($ret, $stdout, $stderr) = $node->psql($database // 'postgres',
		"\\set VERBOSITY verbose\n$statements", extra_params => [ '-U', $user ], on_error_stop => 0, %params);
	return $stdout . join('', map { /(?:ERROR|FATAL): +(\w{5}):|($is_20MB)/ ? "\n" . ($1 // $2) : '' } split /\n/, $stderr);
}
my $limit_of_me = 'SELECT limit_bytes / 1024 / 1024 FROM sift_memory_usage_backends WHERE pid = pg_backend_pid()';
my $refused = "\n53200\n$is_20MB";

like(as('limited', 'SELECT large()'), qr/^$refused$/, 'a role has a limit');
is(as('limited', 'SHOW sift.max_memory_limit', 'other'), '30MB', 'another one in another database');
is(as('trusted', 'SELECT large()'), 40000000, 'other roles have none');

# None of this gives more.
my $n = 0;
for my $try ('SET sift.memory_limit = -1', 'SET sift.memory_limit = "1GB"', 'SET LOCAL sift.memory_limit = -1',
	q{SELECT set_config('sift.memory_limit', '-1', false)}, 'RESET sift.memory_limit', 'RESET ALL', 'DISCARD ALL',
	'BEGIN', 'SET SESSION AUTHORIZATION DEFAULT', 'SET ROLE team', "LOAD 'sift'",
	q{ALTER ROLE limited SET sift.memory_limit = -1},
	q{CREATE FUNCTION f() RETURNS int LANGUAGE sql SET sift.memory_limit = -1 RETURN large(); SELECT f(); DROP FUNCTION f},
	q{DO $$ BEGIN FOR i IN 1 .. 3 LOOP BEGIN PERFORM large(); EXCEPTION WHEN out_of_memory THEN NULL; END; END LOOP; END $$})
{
	like(as('limited', "$try;\nSELECT large();"), qr/$refused$/, "nothing gained by: $try");
}
for my $try ('SET sift.max_memory_limit = -1', 'RESET sift.max_memory_limit', 'SET LOCAL sift.max_memory_limit = -1',
	q{SELECT set_config('sift.max_memory_limit', '-1', false)}, 'ALTER ROLE limited SET sift.max_memory_limit = -1',
	'ALTER ROLE limited RESET sift.max_memory_limit', 'ALTER ROLE ALL SET sift.max_memory_limit = -1',
	'ALTER DATABASE postgres SET sift.max_memory_limit = -1', 'ALTER SYSTEM SET sift.max_memory_limit = -1',
	'SET sift.account_server = off', 'SET sift.total_memory_limit = -1',
	'GRANT SET ON PARAMETER sift.max_memory_limit TO limited', 'SET ROLE trusted', 'SET SESSION AUTHORIZATION trusted',
	q{CREATE FUNCTION f() RETURNS int LANGUAGE sql SET sift.max_memory_limit = -1 RETURN large()})
{
	like(as('limited', "$try;\nSELECT large();"), qr/^\n(42501|55P02)$refused$/, "not allowed: $try");
}
for my $option ('-c sift.max_memory_limit=-1', '-c sift.account_server=off')
{
	local $ENV{PGOPTIONS} = $option;
	isnt($node->psql('postgres', 'SELECT 1', extra_params => [ '-U', 'limited' ]), 0, "no connection with $option");
}
{
	local $ENV{PGOPTIONS} = '-c sift.memory_limit=-1';
	like(as('limited', 'SELECT large()'), qr/^$refused$/, 'nothing gained by -c sift.memory_limit=-1');
}
# Who may set it can lift it, for the own session and no other.
is(as('trusted', "SET sift.max_memory_limit = '50MB'; $limit_of_me; SET sift.max_memory_limit = -1; SELECT large()"), "50\n40000000",
	'with the right to set it');
like(as('trusted', 'ALTER ROLE limited SET sift.max_memory_limit = -1'), qr/^\n42501$/, 'which is not one over other roles');

# A function can have a limit of its own, and give those who call it more.
$node->safe_psql('postgres', q{
	CREATE FUNCTION with_less() RETURNS int LANGUAGE plpgsql SET sift.memory_limit = '10MB' AS $$BEGIN RETURN large(); END$$;
	CREATE FUNCTION with_more() RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET sift.max_memory_limit = '300MB' AS $$BEGIN RETURN large(); END$$;
	CREATE FUNCTION fails_with_more() RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET sift.max_memory_limit = '300MB' AS $$BEGIN RETURN 1 / 0; END$$;
	CREATE FUNCTION with_definer() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$BEGIN RETURN large(); END$$});
is(as('trusted', "SELECT with_less(); SHOW sift.memory_limit; SELECT large()"), "-1\n40000000\n53200", 'a function that has less, and what is after it');
like(as('limited', "SELECT with_more(); $limit_of_me; SELECT large()"), qr/^40000000\n20$refused$/, 'a function that has more, and what is after it');
like(as('limited', "SELECT fails_with_more(); $limit_of_me; SELECT large()"), qr/^20\n22012$refused$/, 'the same where it fails');
like(as('limited', q{DO $$ BEGIN PERFORM fails_with_more(); EXCEPTION WHEN division_by_zero THEN PERFORM large(); END $$}),
	qr/^$refused$/, 'and where that is caught');
like(as('limited', 'SELECT with_definer()'), qr/^$refused$/, "limits are the session's, whoever owns the function");
is(as($superuser, "SET ROLE limited; SELECT ($limit_of_me) IS NULL; SELECT large()"), "t\n40000000", "SET ROLE does not bring that role's limit");
$node->stop;

# A library that comes with the session finds what the user has asked for as mere text.
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\nsession_preload_libraries = 'sift'");
$node->start;
like(as('limited', 'SELECT large()'), qr/^$refused$/, 'session_preload_libraries: the limit counts');
like(as('limited', 'SET sift.max_memory_limit = -1; SELECT large()'), qr/^\n42501$refused$/, 'and cannot be lifted');
for my $option ('sift.max_memory_limit=-1', 'sift.max_memory_limit=junk', 'sift.max_memory_limit=20480kB', 'session_preload_libraries=')
{
	local $ENV{PGOPTIONS} = "-c $option";
	my ($ret, undef, $stderr) = $node->psql('postgres', 'SELECT 1', extra_params => [ '-U', 'limited' ]);
	isnt($ret, 0, "no connection with $option");
	like($stderr, qr/FATAL:  permission denied to set parameter/, 'but the reason');
}
{
	local $ENV{PGOPTIONS} = '-c sift.account_server=off';
	like(as('limited', 'SELECT large()'), qr/^$refused$/, 'nothing gained by sift.account_server=off');
}
for my $user ('trusted', $superuser)
{
	local $ENV{PGOPTIONS} = '-c sift.max_memory_limit=30MB';
	is(as($user, 'SHOW sift.max_memory_limit'), '30MB', "$user may");
}
{
	local $ENV{PGOPTIONS} = '-c session_preload_libraries=';
	$node->safe_psql('postgres', "ALTER ROLE $_ SET sift.max_memory_limit = 'junk'") for 'trusted', $superuser;
}
is(as($superuser, 'SHOW sift.max_memory_limit'), '-1', 'a typing error leaves the superuser a session');
isnt($node->psql('postgres', 'SELECT 1', extra_params => [ '-U', 'trusted' ]), 0, 'and others none');
$node->stop;

done_testing();
