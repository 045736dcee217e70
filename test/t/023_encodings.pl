# Databases of several encodings on one server, and messages that are not English.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# A German locale of its own.
my $locales = PostgreSQL::Test::Utils::tempdir;
system_or_bail('localedef', '-i', 'de_DE', '-f', 'UTF-8', "$locales/de_DE.UTF-8");

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => ['--no-locale']);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'sift'
jit = off
autovacuum = off
lc_messages = 'de_DE.UTF-8'
sift.log_min_peak = '20MB'
});
{
	local $ENV{LOCPATH} = $locales;
	$node->start;
}

# The same name in the bytes of each encoding, as role, database and in a statement.
my %names = (SQL_ASCII => "m\xff\xfe", LATIN1 => "m\xfcller", UTF8 => "m\xc3\xbcller");
my %holders;
for my $encoding (sort keys %names)
{
	my $name = $names{$encoding};

	local $ENV{PGCLIENTENCODING} = 'SQL_ASCII';
	$node->safe_psql('postgres', qq{CREATE DATABASE "$name" TEMPLATE template0 ENCODING '$encoding' LC_COLLATE 'C' LC_CTYPE 'C'});
	$node->safe_psql($name, qq{CREATE EXTENSION sift; CREATE ROLE "$name" LOGIN; GRANT pg_read_all_stats TO "$name"});
	$holders{$encoding} = $node->background_psql($name, on_error_stop => 0, extra_params => [ '-U', $name ]);
	my (undef, undef, $stderr) = $node->psql($name, qq{\\set VERBOSITY verbose
		SET sift.memory_limit = '30MB'; SELECT array_agg(repeat('$name', 1000)) FROM generate_series(1, 10000)},
		extra_params => [ '-U', $name ]);
	like($stderr, qr/ 53200: .*: +sift\.memory_limit is 30720 kB/s, "$encoding: refused, with the hint");
}

# What each database shows of the others is what PostgreSQL shows there.
for my $encoding (sort keys %names)
{
	my $name = $names{$encoding};

	local $ENV{PGCLIENTENCODING} = $encoding;
	is($node->safe_psql($name, q{
		SELECT count(*), count(*) FILTER (WHERE namesend(s.usename) = namesend(a.usename) AND namesend(s.datname) = namesend(a.datname))
		FROM pg_stat_activity a LEFT JOIN sift_memory_usage_backends s USING (pid) WHERE a.usename LIKE 'm%'}),
		'3|3', "$encoding: names of sessions");
	is($node->safe_psql($name, q{
		SELECT count(*), count(DISTINCT namesend(usename))
		FROM sift_memory_refusals r JOIN pg_roles u ON namesend(rolname) = namesend(usename) JOIN pg_database d ON namesend(d.datname) = namesend(r.datname)}),
		'3|3', "$encoding: names of refusals");
	is($node->safe_psql($name, q{
		SELECT count(DISTINCT u.oid), bool_and(namesend(u.rolname) = namesend(d.datname))
		FROM sift_memory_usage_statements s JOIN pg_roles u ON u.oid = userid JOIN pg_database d ON d.oid = dbid WHERE refusals > 0}),
		'3|t', "$encoding: statements");
	my @views = split /\n/, $node->safe_psql($name, q{SELECT objid::regclass FROM pg_depend JOIN pg_class c ON c.oid = objid
		WHERE deptype = 'e' AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'sift') AND relkind = 'v'});
	my ($ret, undef, $stderr) = $node->psql($name, join ';', map { "SELECT * FROM $_" } @views);
	is(@views > 5 && $ret . $stderr, '0', "$encoding: all views can be read");
}
$_->quit for values %holders;

# A server that speaks German.
my $german = ($node->psql('postgres', 'SELECT 1 / 0'))[2];
SKIP:
{
	skip "PostgreSQL's translations are not installed", 3 unless $german =~ /FEHLER:  Division durch Null/;
	$node->safe_psql('postgres', 'CREATE EXTENSION sift');
	my ($ret, $stdout, $stderr) = $node->psql('postgres', q{
		SET sift.memory_limit = '30MB'; SELECT array_agg(repeat('x', 1000)) FROM generate_series(1, 100000);
		SELECT count(*) FROM sift_memory_refusals WHERE pid = pg_backend_pid();
		SELECT refusals FROM sift_memory_usage_backends WHERE pid = pg_backend_pid();
		DO $$ BEGIN PERFORM array_agg(repeat('x', 1000)) FROM generate_series(1, 100000); EXCEPTION WHEN out_of_memory THEN RAISE 'caught %', SQLERRM; END $$},
		on_error_stop => 0);
	like($stderr, qr/FEHLER:  Speicher aufgebraucht\nDETAIL:  .*\nHINT:  sift\.memory_limit is 30720 kB/, 'refused in German, with the hint');
	is($stdout, "1\n1", 'counted, and on record');
	like($stderr, qr/caught Speicher aufgebraucht/, 'and caught');
}
$node->stop;

done_testing();
