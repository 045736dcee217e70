# A primary and two standbys, looked at from each of them by monitoring/cluster.sql,
# with the SQL of doc/monitoring.md.
use strict;
use warnings;
use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = dirname(__FILE__) . '/../..';
# hosts and ports are the only words of the document that are not used
my ($chapter) = slurp_file("$top/doc/monitoring.md") =~ /^## A cluster\n(.*)/ms;
my ($make_role, $add_nodes, $who_holds) = $chapter =~ /^```sql\n(.*?)^```/msg;

my $primary = PostgreSQL::Test::Cluster->new('db1');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', q{
shared_preload_libraries = 'sift'
jit = off
autovacuum = off
});
my $hba = slurp_file($primary->data_dir . '/pg_hba.conf');
unlink $primary->data_dir . '/pg_hba.conf';
$primary->append_conf('pg_hba.conf', "local all sift_watch scram-sha-256\n$hba");
$primary->start;
$primary->safe_psql('postgres', q{
	CREATE SCHEMA "odd place"; CREATE EXTENSION sift SCHEMA "odd place";
	CREATE ROLE app LOGIN; ALTER ROLE app SET sift.memory_limit = '30MB';
	CREATE ROLE observer LOGIN IN ROLE pg_monitor});
$primary->backup('base');
my @nodes = ($primary);
for my $name ('db2', 'db3')
{
	my $standby = PostgreSQL::Test::Cluster->new($name);
	$standby->init_from_backup($primary, 'base', has_streaming => 1);
	$standby->start;
	push @nodes, $standby;
}

$primary->safe_psql('postgres', $make_role);
$primary->command_ok([ 'psql', '-Xq1', '-d', $primary->connstr('postgres'), '-f', "$top/monitoring/cluster.sql" ], 'made');
# which the standbys know before a node that they are is added
$primary->wait_for_catchup($_) for 'db2', 'db3';
for my $node (@nodes)
{
	my $name = $node->name;
	$add_nodes =~ s/'$name\.example\.org', 5432/"'" . $node->host . "', " . $node->port/e or die "the document does not add $name";
}
$primary->safe_psql('postgres', $add_nodes);
$primary->wait_for_catchup($_) for 'db2', 'db3';

sub watch { return $_[0]->safe_psql('postgres', $_[1], extra_params => [ '-U', 'observer' ]) }

# A session on each, of which one is refused.
my (@sessions, @pids);
for my $node (@nodes)
{
	my $session = $node->background_psql('postgres', on_error_stop => 0, extra_params => [ '-U', 'app' ]);
	push @pids, $session->query_safe('SELECT pg_backend_pid()');
	push @sessions, $session;
}
$sessions[1]->query(q{SELECT length(string_agg(repeat('x', 1000), '')) FROM generate_series(1, 100000)});
my $held = q{SELECT node, pid, limit_bytes, refusals FROM sift_cluster.memory WHERE usename = 'app' ORDER BY node};
my %row;
@row{qw(db1 db2 db3)} = ("db1|$pids[0]|31457280|0", "db2|$pids[1]|31457280|1", "db3|$pids[2]|31457280|0");
my $all = join("\n", @row{qw(db1 db2 db3)});
is(watch($_, $held), $all, $_->name . ': all nodes are seen') for @nodes;

# The query of the document; and the same bytes as on the node itself.
my $answer = watch($primary, $who_holds);
is(join(',', sort map { (split /\|/)[0] } grep { /\|app\|31457280\|/ } split /\n/, $answer), 'db1,db2,db3', "the document's query");
unlike($answer, qr/[^|\n]$/m, 'has no error');
my $of_db3 = "WHERE pid = $pids[2]";
my $asked = 'charged_bytes, peak_bytes, rss_anon_bytes, free_heap_bytes, outside_bytes';
# what an idle session keeps free goes back by itself, so both are asked until they agree
my ($here, $there) = ('', 'none');
for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
{
	$there = $nodes[2]->safe_psql('postgres', qq{SELECT $asked FROM "odd place".sift_memory_usage_backends $of_db3});
	$here = watch($primary, "SELECT $asked FROM sift_cluster.memory $of_db3 AND node = 'db3'");
	last if $here eq $there;
	select undef, undef, undef, 0.1;
}
is($here, $there, 'a standby seen from the primary is what it sees itself');
is(watch($nodes[2], 'SELECT node, usename, kind, limit_bytes, error IS NULL FROM sift_cluster.refusals WHERE usename IS NOT NULL'),
	'db2|app|server|31457280|t', 'a refusal, on the node that it was on');
is(watch($primary, 'SELECT node, backends > 0 AND charged_bytes > 0 AND peak_bytes >= charged_bytes, error FROM sift_cluster.total ORDER BY node'),
	"db1|t|\ndb2|t|\ndb3|t|", 'totals');

# Rights.
my $stderr = ($primary->psql('postgres', $held, extra_params => [ '-U', 'app' ]))[2];
like($stderr, qr/ERROR:  permission denied for schema sift_cluster/, 'not for everybody');
for my $try ('SELECT * FROM sift_node_db1.sift_memory_refusals', q{CALL sift_cluster.add_node('x', 'y', 1, 'z')}, q{CALL sift_cluster.drop_node('db1')})
{
	$stderr = ($primary->psql('postgres', $try, extra_params => [ '-U', 'observer' ]))[2];
	like($stderr, qr/ERROR:  permission denied/, "not for pg_monitor: $try");
}
is(watch($primary, q{SELECT count(*) FROM pg_user_mappings WHERE umoptions IS NOT NULL}), 0, 'nor the passwords');
is($primary->safe_psql('postgres', q{SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolbypassrls FROM pg_roles WHERE rolname = 'sift_watch'}), 'f',
	'sift_watch is not a role with power');

# What a node's settings would cancel is not cancelled.
$primary->safe_psql('postgres', q{ALTER ROLE sift_watch SET statement_timeout = '1ms'});
$primary->wait_for_catchup($_) for 'db2', 'db3';
is(watch($primary, $held), $all, 'a statement_timeout of the role over there does not count');
$primary->safe_psql('postgres', 'ALTER ROLE sift_watch RESET statement_timeout');

# Nodes that do not answer, each in its way; the others are as they were.
my $with_errors = q{SELECT node, pid, limit_bytes, refusals, error FROM sift_cluster.memory WHERE usename = 'app' OR error IS NOT NULL ORDER BY node};
my $not_there = qr/could not connect to server "sift_node_db\d": .*/;
sub shut { my ($n) = @_; $sessions[$n]->quit; $nodes[$n]->stop('fast') }
shut(1);
like(watch($primary, $with_errors), qr/\A\Q$row{db1}\E\|\ndb2\|\|\|\|$not_there\n\Q$row{db3}\E\|\z/, 'a standby is down');
like(watch($primary, $who_holds), qr/\Adb2\|\|\|\|\|\|$not_there$/m, "which comes first in the document's query");
like(watch($primary, 'SELECT node, limit_bytes, error FROM sift_cluster.total ORDER BY node'), qr/\Adb1\|\|\ndb2\|\|$not_there\ndb3\|\|\z/, 'in the totals, too');
like(watch($primary, 'SELECT DISTINCT node, error FROM sift_cluster.refusals'), qr/\Adb2\|$not_there\z/, 'and where there are no other rows');
is(watch($primary, "BEGIN; $held; $held; COMMIT"), join("\n", ($row{db1}, $row{db3}) x 2), 'a transaction goes on after that');

$primary->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$sessions[0]->quit;
$primary->restart;
like(watch($primary, $with_errors), qr/\Adb1\|\|\|\|sift must be loaded via "shared_preload_libraries".*\ndb2\|\|\|\|$not_there\n\Q$row{db3}\E\|\z/,
	'one that has no Sift at present');
$primary->stop;
like(watch($nodes[2], $with_errors), qr/\Adb1\|\|\|\|$not_there\ndb2\|\|\|\|$not_there\n\Q$row{db3}\E\|\z/, 'a standby tells of itself when it is the last');

# After a failover.
$nodes[2]->promote;
is(watch($nodes[2], $held), $row{db3}, 'promoted');
$nodes[1]->start;
is(watch($nodes[2], 'SELECT DISTINCT node FROM sift_cluster.memory WHERE error IS NULL ORDER BY node'), "db2\ndb3", 'a node that is back is seen');
$nodes[2]->safe_psql('postgres', q{CALL sift_cluster.drop_node('db1')});
is(watch($nodes[2], 'SELECT node FROM sift_cluster.nodes ORDER BY node'), "db2\ndb3", 'one that is gone for good is taken away');
is($nodes[2]->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relnamespace::regnamespace::text = 'sift_node_db1'}), 0, 'with its tables');
shut(2);
$nodes[1]->stop;
done_testing();
