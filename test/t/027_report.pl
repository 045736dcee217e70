# The page that sift_report makes: its figures beside the views, hostile names, what a
# browser makes of it, and how it ends when something is missing.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use IPC::Run;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'sift, pg_stat_statements'
sift.total_memory_limit = '1GB'
jit = off
autovacuum = off
work_mem = '64MB'
});
$node->start;
my $folder = PostgreSQL::Test::Utils::tempdir_short();
my $page = "$folder/page.html";

# report OPTION...: exit status, what it says, and the page (bytes; undef without one)
sub report
{
	my ($out, $err) = ('', '');

	unlink $page;
	IPC::Run::run([ 'sift_report', '-h', $node->host, '-p', $node->port, '-d', 'postgres', '-o', $page, @_ ], '<', '/dev/null', '>', \$out, '2>', \$err);
	return ($? >> 8, $err, -e $page ? slurp_file($page) : undef);
}

# The figures of the first row that has this in it.
sub figures
{
	my ($html, $in) = @_;
	my ($row) = grep { index($_, $in) >= 0 } $html =~ m{<tbody.*?</tbody>}gs;
	return join '|', ($row // '') =~ /<data value="(\d+)">/g;
}

# --- names and texts that are made to break a page
my $evil = '<script>window.hostile = 1</script>';
my $role = qq{$evil"'&};
my $database = qq{'"<b>\nnew\xe2\x80\xaeline};
my $application = '</td><img src=x onerror="window.hostile = 1">';
my %shown = (role => '&lt;script&gt;window.hostile = 1&lt;/script&gt;&quot;&#39;&amp;', database => '&#39;&quot;&lt;b&gt;\x{A}new\x{202E}line',
	application => '&lt;/td&gt;&lt;img src=x onerror=&quot;window.hostile = 1&quot;&gt;');
sub quoted { return '"' . ($_[0] =~ s/"/""/gr) . '"' }
$node->safe_psql('postgres', "CREATE EXTENSION sift; CREATE EXTENSION pg_stat_statements; CREATE ROLE nobody LOGIN;
	CREATE TABLE t AS SELECT i, repeat('x', 100) AS filler FROM generate_series(1, 50000) i; ANALYZE t");
$node->safe_psql('postgres', 'CREATE ROLE ' . quoted($role) . ' LOGIN');
$node->safe_psql('postgres', 'CREATE DATABASE ' . quoted($database) . q{ TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'});
$node->safe_psql('postgres', 'ALTER ROLE ' . quoted($role) . " SET sift.memory_limit = '120MB'");
$node->safe_psql($database, 'CREATE EXTENSION sift_test CASCADE');

# --- sessions that hold memory of several kinds
my $holder = do { local $ENV{PGAPPNAME} = $application; $node->background_psql($database, on_error_stop => 0, extra_params => [ '-U', $role ]) };
my $pid = $holder->query_safe('SELECT pg_backend_pid()');
$holder->query_safe(q{SELECT sift_test_keep('rows', 'SELECT i, repeat($$x$$, 100) FROM generate_series(1, 100000) i')});
$holder->query_safe(q{SELECT sift_test_keep('long', 'SELECT repeat($$x$$, 1000000) FROM generate_series(1, 10) i')});
my $text = qq{SELECT length(repeat('x', n * 1048576)) AS "</code>$evil" FROM generate_series(20, 20) AS n};
$holder->query_safe($text);
my $refused = q{DO $$ BEGIN PERFORM length(repeat('x', 300 * 1048576)); EXCEPTION WHEN out_of_memory THEN NULL; END $$};
$holder->query_safe($refused);
# a transaction, so that nothing is given back meanwhile
$holder->query_safe('BEGIN; DECLARE sorted CURSOR FOR SELECT repeat($$x$$, 999) FROM generate_series(1, 20000) AS i ORDER BY -i; FETCH sorted');
my ($in, $out) = ('', '');
my $parallel = IPC::Run::start([ 'psql', '-XAtq', $node->connstr('postgres') ], '<', \$in, '>', \$out, '2>', \$out);
$in .= "SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET enable_mergejoin = off; SET enable_nestloop = off;
	SELECT count(*), pg_sleep(1000) FROM t AS a JOIN t AS b USING (i, filler);\n";
$parallel->pump_nb;
my $hashes = q{FROM pg_stat_activity JOIN sift_memory_usage_backends USING (pid) WHERE wait_event = 'PgSleep' AND shared_bytes > 1000000};
$node->poll_query_until('postgres', "SELECT count(*) = 1 $hashes") or die;

my $of_holder = "SELECT charged_bytes, charged_bytes, row_bytes, server_bytes, large_bytes, limit_bytes, refusals FROM sift_memory_usage_backends WHERE pid = $pid";
my $held = $node->safe_psql('postgres', $of_holder);
my ($status, $said, $html) = report('--samples', 4, '--interval', 0.2);
is($status, 0, 'a page is made') or diag($said);
like($said, qr/\Asift_report: \Q$page\E: 4 samples\n\z/, 'and that is said');
is($node->safe_psql('postgres', $of_holder), $held, 'the session stands still');

# --- figures are those of the views
is(join('|', sort split /\|/, figures($html, "client backend $pid")), join('|', sort split /\|/, $held), 'a session: held at the end, most, by kind, limit, refusals');
my ($row, $large, $shared) = split /\|/, $node->safe_psql('postgres', 'SELECT sum(row_bytes), sum(large_bytes), sum(shared_bytes) FROM sift_memory_usage_backends');
my %kind = map { $_ => [ split /\|/, figures($html, qq{<i class="swatch k-$_"></i>}) ] } qw(row batch large idle server shared free);
is(join('|', map { @$_ } @kind{qw(row large shared)}), join('|', map { ($_) x 3 } $row, $large, $shared), 'kinds of memory');
my $sum = 0;
$sum += $kind{$_}[0] for keys %kind;
is((split /\|/, figures($html, '>together<'))[0], $sum, 'and their sum');
is((() = $html =~ /<path class="area k-(?:row|large|server|shared)"/g), 4, 'which are drawn');
like($html, qr{<data value="$sum">[\d.]+\xc2\xa0MB</data> of sift\.total_memory_limit, <data value="1073741824">1\.0\xc2\xa0GB</data>, are held}, 'beside the total limit');
is(figures($html, 'AS &quot;&lt;/code&gt;'), $node->safe_psql('postgres', q{SELECT calls, 0, max_peak_bytes, mean_peak_bytes, last_peak_bytes
	FROM sift_memory_usage_statements WHERE queryid = (SELECT queryid FROM pg_stat_statements WHERE query LIKE 'SELECT length%</code>%')}), 'a statement, found by its text');
my $refusal = $node->safe_psql('postgres', "SELECT requested_bytes, charged_bytes, limit_bytes FROM sift_memory_refusals WHERE pid = $pid");
like(figures($html, "<td data-label=\"process\">$pid"), qr/\A\Q$refusal\E\|/, 'a refusal');
like($html, qr{<b><data value="0">0</data></b><span>1 before on record}, 'which was before the watch');
like($html, qr{<code>sift\.$_<}, "settings: $_") for 'total_memory_limit</code></td><td[^>]*>1GB', 'track_statements</code></td><td[^>]*>top';
like($html, qr{\Q$shown{role}\E</td><td[^>]*>all</td><td[^>]*><code>sift\.memory_limit</code></td><td[^>]*>120MB<}, 'limits of roles');
my ($own) = $html =~ /Its own session \(process (\d+)\) is in the figures, and held <data value="\d+">/;
like($html, qr/client backend $own <span class="dim">this report<.*?>sift_report</s, 'its own session is named');
unlike($html, qr{<h3>What is not on it}, 'nothing is missing');

# --- what is hostile is text
like($html, qr/\Q$shown{$_}\E/, "the $_ is shown") for sort keys %shown;
unlike($html, qr/<script|<img|<b>\n|\xe2\x80\xae/, 'and nothing else');
unlike($html, qr{(?:src|href|url|import)\s*[=(]\s*["']?\s*(?:https?:)?//}i, 'no other place is asked for anything');

# --- a browser
# in CHANGED PAGE, OPTION...: the document as it is in the end, and what the console has
sub in_browser
{
	my ($content, @options) = @_;
	my ($dom, $log) = ('', '');

	unlink "$folder/shown.html";
	append_to_file("$folder/shown.html", $content);
	IPC::Run::run([ 'chromium-headless-shell', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', "--user-data-dir=$folder/browser",
			'--enable-logging=stderr', @options, '--dump-dom', "file://$folder/shown.html" ], '<', '/dev/null', '>', \$dom, '2>', \$log);
	is($?, 0, 'a browser opens it') or diag($log);
	return ($dom, join '', $log =~ /^.*CONSOLE.*$/mg);
}
my ($dom, $console) = in_browser($html);
like($dom, qr/client backend $pid/, 'the page is shown');
is($console, '', 'without a complaint');
($dom, $console) = in_browser("$html<script>document.title = 'taken over'</script>");
like($console, qr/Content Security Policy/, 'a script that got into it would not run');
unlike($dom, qr{<title>taken over}, 'and does not');

# Looked at from within: what is painted where in the first chart, labels that overlap, text that is cut.
my $look = <<'JS';
<script>
const seen = new Set(), box = document.querySelector('.plot svg').getBoundingClientRect();
window.scrollTo(0, box.top - 50);
const now = document.querySelector('.plot svg').getBoundingClientRect();
for (let x = 1; x < 40; x++) for (let y = 1; y < 200; y++) {
	const found = document.elementFromPoint(now.left + now.width * x / 40, now.top + now.height * y / 200);
	if (found && found.tagName == 'path') seen.add(found.getAttribute('class'));
}
const boxes = [...document.querySelectorAll('.plot span')].map(s => s.getBoundingClientRect()).filter(b => b.width > 0);
const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
document.body.textContent = JSON.stringify({ painted: [...seen].sort(), labels: boxes.length,
	overlaps: boxes.filter((a, i) => boxes.some((b, j) => i < j && meet(a, b))).length,
	outside: boxes.filter(b => b.left < 0 || b.right > innerWidth).length,
	sideways: SIDEWAYS, hostile: 'hostile' in window, paper: PAPER });
</script>
JS
$look =~ s/SIDEWAYS/document.documentElement.scrollWidth > innerWidth || [...document.querySelectorAll('.wide')].some(w => w.scrollWidth > w.clientWidth)/;
$look =~ s/PAPER/getComputedStyle(document.body).backgroundColor/;
my $bare = $html =~ s/<meta http-equiv="Content-Security-Policy"[^>]*>//r;
for my $case ([ 'wide', '--window-size=1280,900' ], [ 'phone', '--window-size=360,740' ], [ 'dark', '--window-size=1280,900', '--blink-settings=preferredColorScheme=0' ])
{
	my ($name, @options) = @$case;

	($dom, $console) = in_browser("$bare$look", @options);
	my ($found) = $dom =~ m{<body[^>]*>(\{.*?\})};
	is($console, '', "$name: no complaint");
	like($found, qr/"area k-$_"/, "$name: $_ is painted") for qw(row large server shared);
	like($found, qr/"labels":(?:[89]|\d\d),"overlaps":0,"outside":0,"sideways":false,"hostile":false/, "$name: all can be read, and nothing runs");
	like($found, $name eq 'dark' ? qr/"paper":"rgb\(2\d, 2\d, 2\d\)"/ : qr/"paper":"rgb\(255, 255, 255\)"/, "$name: its background");
}

# --- a refusal while it watches
sub watching { return IPC::Run::start([ 'sift_report', '-h', $node->host, '-p', $node->port, '-d', 'postgres', '-o', $page, @_ ], '<', \undef, '>', \$out, '2>', \$said) }
my $sampled = q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'sift_report' AND state = 'idle' AND query LIKE '%sift_memory_usage_total%'};
unlink $page;
$said = '';
my $watch = watching('--seconds', 1000, '--interval', 0.1);
$node->poll_query_until('postgres', $sampled) or die;
$holder->query_safe("ROLLBACK; $refused");
$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'sift_report'}) or die;
$watch->signal('INT');
ok($watch->finish, 'Ctrl-C ends a watch') or diag($said);
$html = slurp_file($page);
like($html, qr{<b><data value="1">1</data></b><span>1 before on record}, 'with a page, that tells a refusal in the watch from those before');
like($html, qr{<path class="refusal" d="M[\d.]+ 0V1000"/>}, 'and marks it');

# --- few rights
($status, $said, $html) = report('--samples', 1, '-U', 'nobody');
is($status, 0, 'a user without rights gets a page');
like($html, qr/<li>Names and statements of other users: the user &quot;nobody&quot; does not have the role pg_read_all_stats\./, 'that says what it lacks');
unlike($html, qr/\Q$shown{role}\E<.*<h2>Limits/s, 'names of others');
like(figures($html, "client backend $pid"), qr/^\d+\|/, 'and not the figures');
like($html, qr/One sample draws no chart/, 'one sample draws no chart');
$node->safe_psql('postgres', 'REVOKE SELECT ON sift_memory_usage_statements, sift_memory_refusals, sift_memory_usage_total FROM PUBLIC');
($status, $said, $html) = report('--samples', 2, '--interval', 0.1, '-U', 'nobody');
is("$status " . (() = $html =~ /<li>(?:Statements|Refusals|The total): permission denied for view/g), '0 3', 'views that may not be read');
$node->safe_psql('postgres', 'REVOKE SELECT ON sift_memory_usage_backends FROM PUBLIC');
($status, $said, $html) = report('-U', 'nobody');
is("$status " . defined $html, '4 ', 'the one without which there is no page');
like($said, qr/^sift_report: the user "nobody" may not read public\.sift_memory_usage_backends: permission denied/, 'is named');

# --- other encodings: names in the bytes of each database
{
	local $ENV{PGCLIENTENCODING} = 'SQL_ASCII';
	$node->safe_psql('postgres', qq{CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'});
	$node->safe_psql('latin', qq{CREATE EXTENSION sift; CREATE ROLE "m\xfcller" LOGIN});
	my $latin = $node->background_psql('latin', extra_params => [ '-U', "m\xfcller" ]);
	like((report('-d', 'latin', '--samples', 1))[2], qr/>m\xc3\xbcller</, 'a name in LATIN1, seen from there');
	($status, $said, $html) = report('--samples', 1);
	like($html, qr/>m\\xFCller</, 'and from a database of another encoding, where its bytes are no text');
	$latin->quit;
}

# --- the page goes to standard output, or nowhere
IPC::Run::run([ 'sift_report', '-h', $node->host, '-p', $node->port, '-d', 'postgres', '--samples', 1, '-o', '-' ], '>', \$out, '2>', \$said);
like($out, qr/\A<!DOCTYPE html>.*<\/html>\n\z/s, 'on standard output');
for my $where ("$folder/none/page.html", $folder, '/dev/full')
{
	($status, $said) = report('--samples', 1, '-o', $where);
	is($status, 1, "not to $where");
	like($said, qr/\Asift_report: "\Q$where\E" (?:cannot be written: .+|is a folder)\n\z/, 'which is said');
}
is(join(' ', glob("$folder/.sift_report*")), '', 'nothing is left beside the page');

# --- options that are wrong
for my $wrong ([ '--samples', 0 ], [ '--samples', 'many' ], [ '--seconds', 0 ], [ '--seconds', -1 ], [ '--interval', 0 ], [ '--interval', '1e3' ],
	[ '--samples', 2, '--seconds', 2 ], ['--sideways'], ['postgres'], [ '-o', '' ])
{
	($status, $said, $html) = report(@$wrong);
	is("$status " . defined $html, '2 ', "wrong: @$wrong");
	like($said, qr/\Asift_report: .*see sift_report --help\n\z/s, 'which is said');
}

# --- what is not there
for my $case ([ 3, qr/connection to server/, '-h', "$folder/none" ], [ 3, qr/database "none" does not exist/, '-d', 'none' ],
	[ 3, qr/role "none" does not exist/, '-U', 'none' ], [ 4, qr/the extension is not in the database "template1": CREATE EXTENSION sift/, '-d', 'template1' ])
{
	my ($expected, $message, @options) = @$case;

	($status, $said, $html) = report(@options);
	is("$status " . defined $html, "$expected ", "@options");
	like($said, qr/\Asift_report: .*$message/, 'which is said');
}

# --- a server that goes while it is watched
unlink $page;
$said = '';
$watch = watching('--seconds', 1000, '--interval', 0.1);
$node->poll_query_until('postgres', $sampled) or die;
$node->stop('immediate');
$watch->finish;
is($watch->result, 5, 'the server goes') or diag($said);
like($said, qr/: \d+ samples?\nsift_report: the server has gone: .+\n\z/s, 'which is said');
$html = slurp_file($page);
like($html, qr/role="alert">The server could no longer be asked after \d\d:\d\d:\d\d\./, 'in the page, too');
like($html, qr/client backend $pid/, 'which has what was seen');
$parallel->finish;
eval { $holder->quit };

# --- a server where nothing is charged, and no statement kept
$node->append_conf('postgresql.conf', "sift.account_server = off\nsift.total_memory_limit = -1\nsift.track_statements = 'none'");
$node->start;
$node->safe_psql('postgres', 'SELECT sift_reset_statements()');
($status, $said, $html) = report('--samples', 2, '--interval', 0.1);
is($status, 0, 'nothing to show');
like($html, qr/$_/, 'what there is instead') for 'there is no limit for all sessions together', 'No statement is on record: sift\.track_statements',
	'No request is on record', '<span class="dim">off</span>';
is((() = $html =~ /<svg/g), 1, 'and no chart of nothing');
$node->stop;

# --- a server without the library
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->start;
($status, $said, $html) = report();
is("$status " . defined $html, '4 ', 'not preloaded');
like($said, qr/\Asift_report: the server has not preloaded Sift: shared_preload_libraries = 'sift', and a restart\n\z/, 'which is said');
$node->stop;
done_testing();
