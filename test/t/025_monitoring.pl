# What monitoring/ has for Prometheus and for Nagios, against what the views say:
# Debian's exporter and Prometheus run beside a server, and the check is run as
# a monitoring system runs it.
use strict;
use warnings;
use File::Basename;
use HTTP::Tiny;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $monitoring = dirname(__FILE__) . '/../../monitoring';
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'sift'
sift.total_memory_limit = '300MB'
compute_query_id = on
jit = off
autovacuum = off
work_mem = '1GB'
});
$node->start;
# the extension is not where the check looks by itself
$node->safe_psql('postgres', q{
	CREATE SCHEMA tools; CREATE EXTENSION sift SCHEMA tools;
	CREATE DATABASE shop; CREATE DATABASE bare;
	CREATE ROLE app LOGIN; ALTER ROLE app SET sift.memory_limit = '30MB';
	CREATE ROLE "free|man" LOGIN;
	CREATE ROLE nobody LOGIN; GRANT USAGE ON SCHEMA tools TO nobody;
	CREATE ROLE sift_watch LOGIN IN ROLE pg_monitor;
	GRANT USAGE ON SCHEMA tools TO sift_watch;
	ALTER ROLE sift_watch SET search_path = tools;
	-- of statements, only those of the shop
	ALTER DATABASE postgres SET sift.track_statements = 'none'});
$node->safe_psql('shop', 'CREATE EXTENSION sift; CREATE EXTENSION sift_test');
$node->safe_psql('postgres', 'SELECT tools.sift_reset_statements()');
sub watch { return $node->safe_psql('postgres', $_[0], extra_params => [ '-U', 'sift_watch' ]) }

# --- the check
# check ARGUMENT...: its exit status and its line
sub check
{
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'sh', "$monitoring/check_sift", @_ ], '>', \$out, '2>', \$err);
	my $status = $? >> 8;
	is($err, '', 'nothing but its line');
	return "$status $out";
}
my @there = ('-H', $node->host, '-p', $node->port, '-U', 'sift_watch', '-d', 'postgres');

like(check('session', '-w', 80, '-c', 95, @there), qr{\A0 SIFT OK: no session has a limit \| share=0\.00%;80;95;0; sessions=0;;;0;\n\z}, 'no session has a limit');
like(check('refusals', '-w', 0, '-c', 1, @there), qr{\A0 SIFT OK: refusals in the last 10 minutes: 0 \| refusals=0\.00;0;1;0;\n\z}, 'no refusals');
my @session = map { $node->background_psql('shop', on_error_stop => 0, extra_params => [ '-U', $_ ]) } 'app', 'app', 'free|man';
my @pid = map { $_->query_safe('SELECT pg_backend_pid()') } @session;
# rows in a row context, and a cursor, which stands still where it holds most
$session[0]->query_safe(q{SELECT sift_test_keep('rows', 'SELECT i FROM generate_series(1, 10000) i')});
$session[0]->query_safe(q{BEGIN; DECLARE c CURSOR FOR SELECT repeat('x', 1000) FROM generate_series(1, 10000) i ORDER BY -i; FETCH 1 FROM c});
my ($share, $held) = split /\|/, watch("SELECT round(100.0 * charged_bytes / limit_bytes, 2), charged_bytes / 1024 FROM sift_memory_usage_backends WHERE pid = $pid[0]");
my $says = qr{session $pid[0] \(app in shop\) holds [\d.]+ % of its limit, $held of 30720 kB \| share=$share%};
cmp_ok($share, '>', 30, 'a session that holds a third of its limit');
like(check('session', '-w', 90, '-c', 95, @there), qr{\A0 SIFT OK: $says;90;95;0; sessions=2;;;0;\n\z}, 'below both');
like(check('session', '-w', $share - 0.01, '-c', 95, @there), qr{\A1 SIFT WARNING: $says}, 'above one');
like(check('session', '-w', $share + 0.01, '-c', 95, @there), qr{\A0 SIFT OK: $says}, 'just not');
like(check('session', '-w', 10, '-c', $share - 0.01, @there), qr{\A2 SIFT CRITICAL: $says}, 'above both');

like(check('total', '-w', 99, '-c', 99, @there), qr{\A0 SIFT OK: [\d.]+ % of the total limit are held, \d+ of 307200 kB \| share=[\d.]+%;99;99;0; charged=\d+B;;;0;314572800 refusals=0c\n\z}, 'the total');
like(check('total', '-w', 0, '-c', 99, @there), qr{\A1 }, 'above one');
like(check('total', '-w', 0, '-c', 0, @there), qr{\A2 }, 'above both');
my ($of_total, $charged) = check('total', '-w', 99, '-c', 99, @there) =~ /share=([\d.]+)%.*charged=(\d+)B/;
is($of_total, sprintf('%.2f', 100 * $charged / 314572800), 'its share is that of what it says is held');

# one refusal by the session's limit, and one by the total's
$session[1]->query(q{SELECT length(string_agg(repeat('x', 1000), '')) FROM generate_series(1, 100000)});
like(check('refusals', '-w', 0, '-c', 1, @there), qr{\A1 SIFT WARNING: refusals in the last 10 minutes: 1, the last of app in shop: \d+ bytes, where \d+ of 30720 kB were held \| refusals=1\.00;0;1;0;\n\z}, 'a refusal');
$session[2]->query(q{SELECT length(string_agg(repeat('x', 1000), '')) FROM generate_series(1, 400000)});
like(check('refusals', '-w', 0, '-c', 1, @there), qr{\A2 SIFT CRITICAL: refusals in the last 10 minutes: 2, the last of free man in shop: .* 307200 kB were held \| refusals=2\.00}, 'two; a name does not pass for figures');
like(check('refusals', '-w', 0, '-c', 1, '-n', 0, @there), qr{\A0 SIFT OK: refusals in the last 0 minutes: 0 \|}, 'none of them in no time');
like(check('total', '-w', 99, '-c', 99, @there), qr{\A0 .* refusals=1c\n\z}, 'the one by the total is told with it');

# what it cannot do
my @numbers = ('-w', 80, '-c', 95);
for my $wrong ([ '-w takes a number, not "x"', 'session', '-w', 'x', '-c', 95 ], [ '-w takes a number, not "1.2.3"', 'session', '-w', '1.2.3', '-c', 80 ],
	[ '-c takes a number, not ""', 'session', '-w', 80 ], [ '-c takes a number, not "-1"', 'session', '-w', 80, '-c', -1 ],
	[ '-w 95 is above -c 80', 'session', '-w', 95, '-c', 80 ], [ 'option -c needs a value', 'session', '-w', 80, '-c' ],
	[ '-n takes minutes, not "1;"', 'refusals', @numbers, '-n', '1;' ], [ '-t takes whole seconds, not "0"', 'session', @numbers, '-t', 0 ],
	[ 'there is no option -x', 'session', @numbers, '-x' ], [ 'more is one word too many', 'session', @numbers, 'more' ],
	map { [ 'say which check: session, total or refusals (--help tells more)', $_ ] } 'all', '')
{
	my ($says, $check, @rest) = @$wrong;
	is(check($check, @there, @rest), "3 SIFT UNKNOWN: $says\n", "not understood: $check @rest");
}
like(check('session', @numbers, @there, '-d', 'bare'), qr{\A3 SIFT UNKNOWN: the extension is not in this database: CREATE EXTENSION sift\n\z}, 'no extension');
like(check('session', @numbers, @there, '-U', 'nobody'), qr{\A3 SIFT UNKNOWN: the role may not see all sessions: GRANT pg_monitor to it\n\z}, 'no rights');
like(check('session', @numbers, @there, '-d', 'nowhere'), qr{\A2 SIFT CRITICAL: the server is not reached: connection to .*database "nowhere" does not exist\n\z}, 'no such database');
like(check('session', @numbers, @there, '-p', 1), qr{\A2 SIFT CRITICAL: the server is not reached: [^\n|]+\n\z}, 'no server');
my $locker = $node->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK pg_extension IN ACCESS EXCLUSIVE MODE');
is(check('session', @numbers, @there, '-t', 1), "2 SIFT CRITICAL: no answer within 1 s\n", 'a server that does not answer');
$locker->quit;
like(check('total', @numbers, '-d', 'dbname=postgres user=sift_watch host=' . $node->host . ' port=' . $node->port), qr{\A0 SIFT OK: }, 'by a connection string');
{
	local $ENV{PGOPTIONS} = '-c default_transaction_read_only=on';
	like(check($_, @numbers, @there), qr{\A[012] SIFT (OK|WARNING|CRITICAL): .* \| }, "$_ writes nothing") for 'session', 'total', 'refusals';
}

# --- Prometheus
my $folder = PostgreSQL::Test::Utils::tempdir();
my ($exporter_port, $port) = (PostgreSQL::Test::Cluster::get_free_port(), PostgreSQL::Test::Cluster::get_free_port());
my $rules = "$monitoring/prometheus_rules.yml";
append_to_file("$folder/prometheus.yml", <<"YML");
global:
  scrape_interval: 1s
  evaluation_interval: 1s
rule_files: ['@{[File::Spec->rel2abs($rules)]}']
scrape_configs:
  - job_name: postgres
    static_configs:
      - targets: ['127.0.0.1:$exporter_port']
YML
my @programs;
END { local $?; $_->kill_kill for @programs }
{
	local $ENV{DATA_SOURCE_NAME} = 'host=' . $node->host . ' port=' . $node->port . ' user=sift_watch dbname=postgres sslmode=disable';
	push @programs, IPC::Run::start([ 'prometheus-postgres-exporter', "--web.listen-address=127.0.0.1:$exporter_port", '--disable-default-metrics',
		'--disable-settings-metrics', "--extend.query-path=$monitoring/postgres_exporter.yml" ], '>', "$folder/exporter.log", '2>&1');
}
push @programs, IPC::Run::start([ 'prometheus', "--config.file=$folder/prometheus.yml", "--storage.tsdb.path=$folder/data",
	"--web.listen-address=127.0.0.1:$port" ], '>', "$folder/prometheus.log", '2>&1');

# What Prometheus has for that query: lines of labels and value, as psql prints rows.
my $http = HTTP::Tiny->new(timeout => 10);
sub ask
{
	my ($query, @labels) = @_;
	my $answer = $http->get("http://127.0.0.1:$port/api/v1/query?" . $http->www_form_urlencode({ query => $query }));
	return "no answer: $answer->{status}" unless $answer->{success};
	return join "\n", sort map { my $row = $_; join '|', (map { $row->{metric}{$_} // '' } @labels), $row->{value}[1] + 0 }
		@{ decode_json($answer->{content})->{data}{result} };
}

# agrees WHAT, METRIC, LABELS, SELECT: both are asked until they say the same.
sub agrees
{
	my ($what, $query, $labels, $select) = @_;
	my ($theirs, $ours);
	for (1 .. 2 * $PostgreSQL::Test::Utils::timeout_default)
	{
		$ours = join "\n", sort map { s/([^|]*)\z/$1 + 0/er } split /\n/, watch($select);
		$theirs = ask($query, @$labels);
		return is($theirs, $ours, $what) if $theirs eq $ours && $ours ne '';
		select undef, undef, undef, 0.5;
	}
	is($theirs, $ours || 'a row', $what) or diag(slurp_file("$folder/exporter.log"), slurp_file("$folder/prometheus.log"));
}
my $shop = q{FROM sift_memory_usage_backends WHERE datname = 'shop' GROUP BY 1};
for my $column (qw(limit_bytes peak_bytes refusals))
{
	agrees("sift_total_$column", "sift_total_$column", [], "SELECT $column FROM sift_memory_usage_total");
}
is(ask('sift_total_refusals'), 1, 'the refusal by the total limit is counted');
agrees("sift_processes_$_", qq(sift_processes_$_\{datname="shop"}), ['backend_type'], "SELECT backend_type, sum($_) $shop")
  for qw(charged_bytes row_bytes batch_bytes large_bytes idle_bytes server_bytes shared_bytes free_heap_bytes rss_anon_bytes outside_bytes waived_bytes refusals);
agrees('sift_processes_processes', 'sift_processes_processes{datname="shop"}', ['backend_type'], "SELECT backend_type, count(*) $shop");
is(ask('sift_processes_refusals{datname="shop"}', 'backend_type'), 'client backend|2', 'two refusals');
my $roles = q{FROM sift_memory_usage_backends WHERE usename IN ('app', 'free|man') GROUP BY 1};
my $their = '{usename!="sift_watch"}';
agrees('sift_role_sessions', "sift_role_sessions$their", ['usename'], "SELECT usename, count(*) $roles");
agrees('sift_role_charged_bytes', "sift_role_charged_bytes$their", ['usename'], "SELECT usename, sum(charged_bytes) $roles");
agrees('sift_role_largest_session_bytes', "sift_role_largest_session_bytes$their", ['usename'], "SELECT usename, max(charged_bytes) $roles");
agrees('sift_role_largest_share', 'round(1e6 * sift_role_largest_share{usename="app"})', ['usename'],
	"SELECT usename, round(1e6 * max(charged_bytes) / min(limit_bytes)) $roles HAVING usename = 'app'");
like(ask('sift_role_largest_share >= 0', 'usename'), qr/\Aapp\|\S+\z/, 'roles without a limit have no share that could be compared');
my @labels = qw(datname usename kind);
my $ring = "FROM sift_memory_refusals GROUP BY 1, 2, 3";
agrees('sift_refusals_kept', 'sift_refusals_kept', \@labels, "SELECT datname, usename, kind, count(*) $ring");
agrees('sift_refusals_largest_request_bytes', 'sift_refusals_largest_request_bytes', \@labels, "SELECT datname, usename, kind, max(requested_bytes) $ring");
agrees('sift_refusals_last_time_seconds', 'round(1000 * sift_refusals_last_time_seconds)', \@labels, "SELECT datname, usename, kind, round(1000 * extract(epoch FROM max(at))) $ring");
my $statements = q{FROM sift_memory_usage_statements JOIN pg_database d ON d.oid = dbid JOIN pg_roles r ON r.oid = userid WHERE datname = 'shop'};
agrees("sift_statement_$_", qq(sift_statement_$_\{datname="shop"}), [qw(usename queryid)], "SELECT rolname, queryid, $_ $statements")
  for qw(calls refusals max_peak_bytes mean_peak_bytes);

# Many sessions and statements are no more series than few.
$node->safe_psql('shop', join ';', map { 'SELECT ' . join '+', (1) x $_ } 1 .. 100);
agrees('statements are 20 at most', 'count(sift_statement_calls)', [], 'SELECT 20');
agrees('kept are more', 'vector(1)', [], 'SELECT (count(*) > 100)::int FROM sift_memory_usage_statements');
is(ask('count({pid!=""}) or vector(0)'), 0, 'no series bears a pid');

# A refusal is an alert at once; the rest of the rules is for Prometheus' own tool.
agrees('the alert of a refusal', 'ALERTS{alertname="SiftRefusal", alertstate="firing"}', [qw(usename datname)], 'SELECT DISTINCT usename, datname, 1 FROM sift_memory_refusals');
append_to_file("$folder/test.yml", <<"YML");
rule_files: ['@{[File::Spec->rel2abs($rules)]}']
tests:
  - interval: 1m
    input_series:
      - { series: 'sift_role_largest_share{usename="app"}', values: '0.5 0.95x9' }
      - { series: 'sift_total_charged_bytes', values: '90 95x9' }
      - { series: 'sift_total_limit_bytes', values: '100x9' }
      - { series: 'sift_refusals_last_time_seconds{usename="app", datname="shop"}', values: '0x9' }
      - { series: 'sift_total_backends', values: '7 7' }
    alert_rule_test:
      - { eval_time: 1m, alertname: SiftSessionNearLimit }
      - { eval_time: 2m, alertname: SiftSessionNearLimit, exp_alerts: [ {
            exp_labels: { usename: app }, exp_annotations: { summary: 'A session of app holds 95% of its limit' } } ] }
      - { eval_time: 1m, alertname: SiftTotalNearLimit }
      - { eval_time: 2m, alertname: SiftTotalNearLimit, exp_alerts: [ {
            exp_annotations: { summary: 'All sessions together hold 95% of sift.total_memory_limit' } } ] }
      - { eval_time: 4m, alertname: SiftRefusal, exp_alerts: [ {
            exp_labels: { usename: app, datname: shop }, exp_annotations: { summary: 'app in shop was refused memory' } } ] }
      - { eval_time: 5m, alertname: SiftRefusal }
      - { eval_time: 10m, alertname: SiftNoFigures }
      - { eval_time: 12m, alertname: SiftNoFigures, exp_alerts: [ { exp_annotations: { summary: 'There are no figures of Sift' } } ] }
YML
command_ok([ 'promtool', 'test', 'rules', "$folder/test.yml" ], 'the rules');

# without a total limit
$node->append_conf('postgresql.conf', 'sift.total_memory_limit = -1');
$node->reload;
agrees('no total limit', 'sift_total_limit_bytes', [], q{SELECT 'NaN' FROM sift_memory_usage_total WHERE limit_bytes IS NULL});
like(check('total', '-w', 0, '-c', 0, @there), qr{\A0 SIFT OK: there is no total limit; \d+ kB are held \| share=0\.00%;0;0;0; charged=\d+B;;;0; refusals=1c\n\z}, 'nor is there a share of it');

for (@programs)
{
	$_->signal('TERM');
	$_->finish;
}
@programs = ();
$_->quit for @session;
$node->stop;

# --- a server that has not preloaded Sift, and one that is not up
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->start;
like(check($_, @numbers, @there), qr{\A3 SIFT UNKNOWN: Sift is not in the server's shared_preload_libraries\n\z}, "$_: not preloaded") for 'session', 'total', 'refusals';
$node->stop;
like(check('session', @numbers, @there), qr{\A2 SIFT CRITICAL: the server is not reached: [^\n|]+\n\z}, 'the server is down');
done_testing();
