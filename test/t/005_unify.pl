# unify: a million rows through the files, and disks that do not take them.
#
# SIFT_TEST_TINY_DISK: a folder on a file system of 1 MB (test/run makes one).
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'sift'");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION sift; CREATE EXTENSION unify');

# Every row that is read back equals the row that was put in.
my $query = q{SELECT g AS id, md5(g::text) AS hash, repeat('x', g % 50) AS filler, CASE WHEN g % 7 > 0 THEN g::numeric / 3 END AS exact FROM generate_series(1, 1000000) g};
my $files = $node->basedir . '/files';
mkdir $files;
my $checksum = $node->safe_psql('postgres', "SELECT count(*), sum(hashtextextended(s::text, 0)) FROM ($query) s");
for my $allocator (qw(sift store))
{
	my ($moved, $read, $held) = split /\n/, $node->safe_psql('postgres', qq{
SET sift.memory_limit = '400MB';
SELECT unify_register('million', '$allocator') \\g /dev/null
SELECT unify_load('million', \$\$$query\$\$) \\g /dev/null
SELECT sum(unify_move('million', 100000, '$files/$allocator')) FROM generate_series(1, 10);
SELECT count(*), sum(hashtextextended(r::text, 0)) FROM unify_read('$files/$allocator') AS r(id int, hash text, filler text, exact numeric);
SELECT bytes < 1000000 FROM unify_stats();
});
	is($moved, 1000000, "$allocator: a million rows are moved, in ten batches");
	is($read, $checksum, 'every row is read back as it was put in');
	is($held, 't', 'and nothing of them is held');
}

# A call that fails leaves the table and the directory as they were.
sub fails
{
	my ($name, $directory, $sqlstate) = @_;
	my ($ret, $stdout, $stderr) = $node->psql('postgres', qq{
\\set VERBOSITY sqlstate
SELECT unify_register('rows', 'sift') \\g /dev/null
SELECT unify_write('rows', 2000, 0, 0, 1) \\g /dev/null
SELECT bytes AS before FROM unify_stats() \\gset
SELECT unify_move('rows', 2000, '$directory');
SELECT rows, bytes <= :before FROM unify_stats();
SELECT unify_move('rows', 2000, '$files.' || pg_backend_pid());
}, on_error_stop => 0);
	like($stderr, qr/^psql:<stdin>:\d+: ERROR:  $sqlstate$/, "$name: a clear error");
	is($stdout, "2000|t\n2000", "$name: the table is as it was, and can be moved elsewhere");
}

my $locked = $node->basedir . '/locked';
mkdir $locked or die;
chmod 0500, $locked;
fails('a directory that cannot be written', "$locked/files", 42501);

my $tiny = $ENV{SIFT_TEST_TINY_DISK};
SKIP:
{
	skip 'there is no small disk', 7 unless $tiny;
	fails('a full disk', "$tiny/files", 53100);
	ok(!-e "$tiny/files", 'a full disk: nothing is left in the directory');
	is($node->safe_psql('postgres', qq{
	SELECT unify_register('rows', 'sift') \\g /dev/null
	SELECT unify_write('rows', 50, 0, 0, 1) \\g /dev/null
	SELECT unify_move('rows', 50, '$tiny/files') \\g /dev/null
	SELECT count(*) FROM unify_read('$tiny/files') AS r(key int8, amount int8, ratio float8, name text, note text, body text)}),
		50, 'what fits is written');
	fails('a disk that is full at the second batch', "$tiny/files", 53100);
	is($node->safe_psql('postgres', "SELECT count(*) FROM unify_read('$tiny/files') AS r(key int8, amount int8, ratio float8, name text, note text, body text)"),
		50, 'the first batch is still there');
}

$node->stop;
done_testing();
