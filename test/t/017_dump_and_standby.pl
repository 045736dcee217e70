# A server's data elsewhere: a dump that is restored, a standby that is promoted,
# and an upgrade by pg_upgrade from the server below SIFT_TEST_OLD_SERVER, where
# that is set.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $settings = q{
shared_preload_libraries = 'sift'
jit = off
autovacuum = off
work_mem = '1GB'
};
sub fill
{
	my ($node) = @_;

	$node->safe_psql('postgres', 'CREATE DATABASE shop');
	$node->safe_psql('shop', q{
		CREATE SCHEMA "odd place";
		CREATE EXTENSION sift SCHEMA "odd place";
		CREATE VIEW held AS SELECT pid, charged_bytes FROM "odd place".sift_memory_usage_backends;
		CREATE ROLE reports LOGIN;
		ALTER ROLE reports SET sift.memory_limit = '30MB';
		ALTER DATABASE shop SET sift.log_min_peak = '1GB';
		CREATE TABLE numbers AS SELECT generate_series(1, 200000) AS i;
		GRANT SELECT ON numbers TO reports});
}

# What a server that has Sift must do, whichever one it is.
my $large = q{SELECT length(string_agg(repeat('x', 1000), '')) FROM numbers};
sub works
{
	my ($node, $where) = @_;

	is($node->safe_psql('shop', 'SELECT charged_bytes > 0 FROM held WHERE pid = pg_backend_pid()'), 't',
		"$where: a view over Sift's views");
	my ($ret, $stdout, $stderr) = $node->psql('shop', "$large; SHOW sift.memory_limit; SHOW sift.log_min_peak",
		extra_params => [ '-U', 'reports' ], on_error_stop => 0);
	like($stderr, qr/ERROR:  out of memory\nDETAIL:  .*\nHINT:  sift\.memory_limit is 30720 kB/,
		"$where: the role's limit refuses");
	is($stdout, "30MB\n1GB", "$where: and its session goes on, with the settings of role and database");
	is($node->safe_psql('shop', q{SELECT count(*) > 0 AND min(limit_bytes) = 30 * 1024 * 1024
		FROM "odd place".sift_memory_refusals WHERE usename = 'reports'}), 't', "$where: the refusal is in the view");
	is($node->safe_psql('shop', "SELECT count(*) FROM numbers a JOIN numbers b USING (i)"), 200000,
		"$where: without a limit a hash join runs");
	is($node->safe_psql('shop', q{SELECT bool_or(max_peak_bytes > 5000000 AND refusals = 0) AND bool_or(refusals > 0)
		FROM "odd place".sift_memory_usage_statements}), 't', "$where: statements are kept, refused ones too");
	is($node->safe_psql('shop', q{
		SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
		SET sift.memory_limit = '100MB';
		SELECT sum(i) FROM numbers}), '20000100000', "$where: a parallel query under a limit");
}
my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', $settings);
$primary->start;
fill($primary);
works($primary, 'primary');

# The members of the extension are not in the dump, the rest is.
my $dump = $primary->backup_dir . '/all.sql';
mkdir $primary->backup_dir;
$primary->command_ok([ 'pg_dumpall', '-f', $dump, '-d', $primary->connstr('postgres') ], 'dumped');
my $text = slurp_file($dump);
like($text, qr/CREATE EXTENSION IF NOT EXISTS sift WITH SCHEMA "odd place"/, 'the extension is dumped');
unlike($text, qr/CREATE (VIEW|FUNCTION) [^\n]*sift_/, 'as a whole');
my $restored = PostgreSQL::Test::Cluster->new('restored');
$restored->init;
$restored->append_conf('postgresql.conf', $settings);
$restored->start;
# the role that runs it is there already
$restored->command_checks_all([ 'psql', '-Xq', '-f', $dump, '-d', $restored->connstr('postgres') ],
	0, [], [qr/\A(psql:\S+ ERROR:  role "\S+" already exists\n)?\z/], 'restored without an error');
works($restored, 'restored');
$restored->stop;

# A standby has accounts, limits and statements of its own.
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
is($standby->safe_psql('postgres', 'SELECT pg_is_in_recovery()'), 't', 'a hot standby');
is($standby->safe_psql('shop', q{SELECT count(*) FROM "odd place".sift_memory_usage_statements s WHERE refusals > 0}),
	0, 'what the primary has refused is not its own');
works($standby, 'standby');
is($standby->safe_psql('shop', q{SELECT bool_and(charged_bytes > 0 AND limit_bytes IS NULL)
	FROM "odd place".sift_memory_usage_backends WHERE backend_type IN ('startup', 'walreceiver')}), 't',
	'its own processes are charged and have no limit');
$standby->promote;
$standby->safe_psql('shop', 'INSERT INTO numbers SELECT 0 WHERE false');
works($standby, 'promoted');
$standby->stop;
$primary->stop;

SKIP:
{
	my $older = $ENV{SIFT_TEST_OLD_SERVER} or skip 'SIFT_TEST_OLD_SERVER is not set', 16;

	my $old = PostgreSQL::Test::Cluster->new('old', install_path => $older);
	$old->init;
	$old->append_conf('postgresql.conf', $settings);
	$old->start;
	fill($old);
	works($old, 'old');
	$old->stop;
	my $new = PostgreSQL::Test::Cluster->new('new');
	# as the older server was made
	$new->init(extra => $new->pg_version >= 18 ? ['--no-data-checksums'] : []);
	$new->append_conf('postgresql.conf', $settings);
	# it leaves scripts where it runs
	chdir $new->basedir;
	command_ok([ 'pg_upgrade', '-b', "$older/bin", '-B', $new->config_data('--bindir'), '-d', $old->data_dir, '-D', $new->data_dir,
		'-s', $new->host, '-p', $old->port, '-P', $new->port ], 'upgraded');
	$new->start;
	is($new->safe_psql('shop', q{SELECT nspname, extversion FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'sift'}),
		'odd place|' . $new->safe_psql('shop', q{SELECT default_version FROM pg_available_extensions WHERE name = 'sift'}), 'the extension has come along');
	works($new, 'upgraded');
	$new->stop;
}

done_testing();
