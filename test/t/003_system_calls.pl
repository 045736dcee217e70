# A pattern that empties a block again and again costs no system calls.
#
# A single-user server is run under strace; between the last two calls of
# getppid it allocates and frees one chunk 200,000 times.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'sift'");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION sift; CREATE EXTENSION sift_test');
$node->stop;

for my $limit (-1, 32 * 1024)
{
	for my $size (64, 4096, 65536, 1048576)
	{
		my $trace = $node->basedir . "/trace.$limit.$size";
		my ($answer, $errors) = ('', '');
		IPC::Run::run(
			[ 'strace', '-o', $trace, '-e', 'trace=mmap,munmap,mprotect,madvise,brk,getppid',
				'postgres', '--single', '-F', '-D', $node->data_dir,
				'-c', "sift.memory_limit=$limit", 'postgres' ],
			'<', \"SELECT sift_test_cross_zero($size, 200000) IS NOT NULL AS done\n",
			'>', \$answer, '2>', \$errors);
		like($answer, qr/done = "t"/, "limit $limit kB, $size bytes: done");
		my @parts = split /^getppid\(\).*\n/m, slurp_file($trace);
		cmp_ok(scalar(@parts), '>=', 3, 'the beginning and the end are found');
		my @calls = grep { /^(mmap|munmap|mprotect|madvise)/ } split /\n/, $parts[-2];
		cmp_ok(scalar(@calls), '<=', 10, 'at most 10 calls: ' . scalar(@calls));
		note($parts[-2]);
	}
}
done_testing();
