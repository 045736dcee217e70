# Ways of loading the library, and what works in each of them.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;
my $rows = q{'SELECT i FROM generate_series(1, 100000) i'};

# Not preloaded: the library comes with the first function.
my ($ret, $stdout, $stderr) = $node->psql('postgres', 'CREATE EXTENSION sift; CREATE EXTENSION sift_test; CREATE ROLE somebody');
like($stderr, qr/WARNING:  sift is not loaded via "shared_preload_libraries"\nDETAIL:  .*no limit.*\nHINT:  .*restart/, 'who creates the extension is warned');
is($node->safe_psql('postgres', 'SELECT count(*) FROM sift_memory_usage'),
	6, 'not preloaded: the own account works');
($ret, $stdout, $stderr) = $node->psql('postgres',
	"\\set VERBOSITY verbose\nSELECT * FROM sift_memory_usage_backends");
like($stderr, qr/55000.*shared_preload_libraries/s, 'not preloaded: other backends are not seen');
like($stderr, qr/HINT: .*restart/, 'and the hint tells what to do');

# A setting that is made before the library is there counts once it is.
($ret, $stdout, $stderr) = $node->psql('postgres', qq{
SET sift.memory_limit = '1MB';
SELECT sift_test_keep('rows', $rows);});
like($stderr, qr/out of memory.*sift\.memory_limit is 1024 kB/s, 'not preloaded: the limit works');

# A total is for servers that have it in shared memory.
$node->append_conf('postgresql.conf', "sift.total_memory_limit = '1MB'");
$node->reload;
($ret, $stdout, $stderr) = $node->psql('postgres', qq{
LOAD 'sift';
SELECT length(repeat('x', 50000000));
SET sift.memory_limit = '20MB';
SELECT length(repeat('x', 50000000));
SELECT limit_bytes FROM sift_memory_usage_total;}, on_error_stop => 0);
is($stdout, '50000000', 'not preloaded: there is no total');
like($stderr, qr/HINT:  sift\.memory_limit is 20480 kB.*sift must be loaded via/s, 'and the limit of the session works');
$node->append_conf('postgresql.conf', 'sift.total_memory_limit = -1');

# session_preload_libraries, for a user who may not LOAD
$node->append_conf('postgresql.conf', "session_preload_libraries = 'sift'");
$node->reload;
is($node->safe_psql('postgres', 'SET ROLE somebody; SHOW sift.memory_limit'),
	'-1', 'session_preload_libraries: the settings are there');
$node->safe_psql('postgres', q{ALTER ROLE somebody SET sift.memory_limit = '2MB'; ALTER ROLE somebody LOGIN;
	ALTER DATABASE postgres SET sift.max_memory_limit = '15MB'});
is($node->safe_psql('postgres', 'SHOW sift.memory_limit', extra_params => [ '-U', 'somebody' ]),
	'2MB', 'a limit for a role');
is($node->safe_psql('postgres', 'SHOW sift.max_memory_limit', extra_params => [ '-U', 'somebody' ]),
	'15MB', 'a limit for a database, by a superuser');
($ret, $stdout, $stderr) = $node->psql('postgres',
	"\\set VERBOSITY sqlstate\nALTER ROLE somebody SET sift.max_memory_limit = '1GB'",
	extra_params => [ '-U', 'somebody' ]);
like($stderr, qr/42501/, 'a user cannot set what only superusers may');

# Preloaded: limits from postgresql.conf, changed by a reload
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'sift, sift_test'\nsift.memory_limit = '17MB'");
my $log_offset = -s $node->logfile;
$node->restart;
like(slurp_file($node->logfile, $log_offset), qr/sift_test: no context in the postmaster/,
	'the postmaster refuses to make a context');
my $session = $node->background_psql('postgres', on_error_stop => 0);
is($session->query_safe('SHOW sift.memory_limit'), '17MB', 'preloaded: a limit from postgresql.conf');
is($session->query_safe("SELECT sift_test_keep('rows', $rows)"), '100000', 'which has room for the rows');
$node->append_conf('postgresql.conf', "sift.memory_limit = '1MB'");
$node->reload;
my $shown = '';
for (my $tries = 0; $shown ne '1MB' && $tries < 1800; $tries++)
{
	$shown = $session->query_safe('SELECT pg_sleep(0.1); SHOW sift.memory_limit');
	$shown =~ s/\s//g;
}
is($shown, '1MB', 'a reload reaches a running session');
$session->query("SELECT sift_test_keep('more', 'SELECT 1')");
like($session->{stderr}, qr/sift\.memory_limit is 1024 kB/, 'below what is held nothing is granted');
$session->{stderr} = '';
is($session->query_safe("SELECT chunks > 100000 FROM sift_memory_usage_contexts WHERE ident = 'rows'"), 't',
	'and nothing is taken away');
$session->quit;

# An invalid limit in postgresql.conf: the server starts, without a limit, and
# says why, as for any setting of an extension.
$node->append_conf('postgresql.conf', "sift.memory_limit = 'a lot'");
$log_offset = -s $node->logfile;
$node->restart;
like(slurp_file($node->logfile, $log_offset), qr/invalid value for parameter "sift\.memory_limit": "a lot"/,
	'an invalid limit is reported');
is($node->safe_psql('postgres', 'SHOW sift.memory_limit'), '-1', 'and is none');
$node->append_conf('postgresql.conf', "sift.memory_limit = -1");
$node->restart;

# Several databases, and the extension dropped while its library is in use
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION sift');
is($node->safe_psql('other', 'SELECT count(*) > 5 FROM sift_memory_usage_backends'), 't',
	'the view in another database');
$session = $node->background_psql('postgres');
$session->query_safe("SELECT sift_test_keep('rows', 'SELECT 1')");
$node->safe_psql('postgres', 'DROP EXTENSION sift');
is($session->query_safe("SELECT count(*) FROM sift_test_kept('rows') k(i int)"), '1',
	'contexts live on without the SQL objects');
$session->quit;

# A single-user server, preloaded
$node->stop;
my ($answer, $errors) = ('', '');
IPC::Run::run([ 'postgres', '--single', '-F', '-D', $node->data_dir, 'postgres' ],
	'<', \"SELECT sift_test_keep('rows', $rows) AS kept\nSELECT sift_test_drop('rows')\nSELECT sift_test_contexts() IS NOT NULL AS passed\n",
	'>', \$answer, '2>', \$errors);
like($answer, qr/kept = "100000".*passed = "t"/s, 'single-user: contexts work');
unlike($errors, qr/(ERROR|FATAL|PANIC):/, 'single-user: no error');

done_testing();
