# What a refusal of the server's own memory looks like, and where it shows.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'sift'
compute_query_id = on
jit = off
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION sift; CREATE ROLE somebody LOGIN; CREATE ROLE other LOGIN');

sub run
{
	my ($sql, %options) = @_;
	my ($ret, $stdout, $stderr) = $node->psql('postgres', $sql, on_error_stop => 0, %options);
	return wantarray ? ($stdout, $stderr) : $stdout;
}

# Statements that run away are refused and the session goes on, with all that
# it had before.
my @runaways = (
	q{SELECT array_agg(i) FROM generate_series(1, 20000000) i},
	q{SELECT count(*) FROM (SELECT i, array_agg(i) FROM generate_series(1, 20000000) i GROUP BY 1) s},
	q{SELECT repeat('x', 900000000)},
	'SELECT count(*) FROM (VALUES ' . join(',', map { "($_, 'x$_', $_.5)" } 1 .. 41000) . ') v',
	q{DO $$ DECLARE a text[]; BEGIN FOR i IN 1..30000 LOOP a[i] := repeat('x', 16384); END LOOP; END $$},
	q{SELECT jsonb_agg(g) FROM generate_series(1, 3000000) g});
for my $statement (@runaways)
{
	my ($stdout, $stderr) = run(qq{
		SET work_mem = '2GB'; SET sift.memory_limit = '32MB';
		CREATE TEMP TABLE kept AS SELECT 1 AS one; PREPARE p AS SELECT one FROM kept;
		\\set VERBOSITY verbose
		$statement;
		EXECUTE p;
		SELECT peak_bytes < 36 * 1024 * 1024 AND refusals = 1 FROM sift_memory_usage WHERE kind = 'server';});
	like($stderr, qr/^.*ERROR:  53200: out of memory\nDETAIL:  Failed on request of size \d+ in memory context "[^"]+"\.\nHINT:  sift\.memory_limit is 32768 kB; held are \d+ kB: row 0 kB, batch 0 kB, large 0 kB, idle 0 kB, server \d+ kB, shared \d+ kB\.$/m,
		'refused: ' . substr($statement, 0, 40));
	is($stdout, "1\nt", 'and the session goes on');
}

# The hint reaches a client whatever is logged, and a handler.
for my $level ('panic', 'debug1')
{
	like((run(qq{SET log_min_messages = $level; SET client_min_messages = error;
			SET sift.memory_limit = '32MB'; SELECT repeat('x', 900000000)}))[1],
		qr/HINT:  sift\.memory_limit is 32768 kB/, "the hint at log_min_messages = $level");
}
my $caught = q{DO $$ DECLARE h text; BEGIN PERFORM repeat('x', 900000000);
	EXCEPTION WHEN out_of_memory THEN GET STACKED DIAGNOSTICS h = PG_EXCEPTION_HINT; RAISE NOTICE 'handler: %', h; END $$};
like((run("SET sift.memory_limit = '32MB'; $caught"))[1], qr/handler: sift\.memory_limit is 32768 kB/,
	'the hint in a handler');
like((run("SET sift.max_memory_limit = '20MB'; SET sift.memory_limit = '32MB'; $caught"))[1],
	qr/handler: sift\.max_memory_limit is 20480 kB/, 'it names the setting that refused');
unlike((run(q{SET sift.memory_limit = '32MB'; SELECT repeat('x', 2000000000)}))[1],
	qr/HINT/, 'an error that no limit causes has no such hint');

# The ring of refusals, in the order of time, with who and what.
my ($stdout) = run(q{SET application_name = 'ring'; SET sift.memory_limit = '32MB';
	SELECT array_agg(i) FROM generate_series(1, 20000000) i;
	SELECT at IS NOT NULL, pid = pg_backend_pid(), usename, datname,
	       queryid IS NOT NULL, context_name, kind, requested_bytes > 1000000,
	       charged_bytes <= limit_bytes, limit_bytes, top_contexts[1] ~ '^ExprContext \d+$', array_length(top_contexts, 1)
	FROM sift_memory_refusals ORDER BY at DESC LIMIT 1});
my $user = $node->safe_psql('postgres', 'SELECT current_user');
is($stdout, "t|t|$user|postgres|t|ExprContext|server|t|t|33554432|t|5", 'a refusal is on record');
my $logged = -s $node->logfile;
run(qq{SET sift.memory_limit = '32MB'; DO \$\$ BEGIN FOR i IN 1..99 LOOP
	BEGIN PERFORM repeat('x', 800000000 + i); EXCEPTION WHEN out_of_memory THEN NULL; END; END LOOP; END \$\$});
my $log = slurp_file($node->logfile, $logged);
is(scalar(() = $log =~ /TopMemoryContext: \d+ total/g), 99, "a refusal that is caught is in the log as PostgreSQL's dump of contexts, once");
unlike($log, qr/(?:ERROR|WARNING|HINT|LOG):  (?!statement: |(?:dis)?connection )/, 'and in no other way');
run(q{SET sift.memory_limit = '32MB'; SELECT repeat('x', 900000001)});
is($node->safe_psql('postgres', 'SELECT count(*), min(requested_bytes) BETWEEN 800000000 AND 800001000, max(requested_bytes) > 900000000 FROM sift_memory_refusals'),
	'100|t|t', 'the last 100 are kept');
is($node->safe_psql('postgres', q{SELECT bool_and(at >= before) FROM (SELECT at, lag(at) OVER () AS before FROM sift_memory_refusals) r}),
	't', 'the oldest first');
is($node->safe_psql('postgres', q{SELECT count(*), count(pid), count(requested_bytes), count(charged_bytes), count(limit_bytes),
		count(at), count(usename), count(datname), count(queryid), count(context_name), count(kind), count(top_contexts)
		FROM sift_memory_refusals}, extra_params => [ '-U', 'somebody' ]),
	'100|100|100|100|100|0|0|0|0|0|0|0', 'of other users one sees bytes and processes only');
$node->safe_psql('postgres', 'GRANT pg_read_all_stats TO somebody');
is($node->safe_psql('postgres', q{SELECT count(usename), count(top_contexts) FROM sift_memory_refusals},
		extra_params => [ '-U', 'somebody' ]), '100|100', 'but for pg_read_all_stats');
is($node->safe_psql('postgres', q{SELECT bool_and(t !~ 'repeat|DO') FROM sift_memory_refusals, unnest(top_contexts) t}), 't',
	'no text of a query is on record');

# A statement that goes on being refused is cancelled, which no handler catches.
my $stderr;
($stdout, $stderr) = run(q{SET sift.memory_limit = '32MB'; DO $$ BEGIN FOR i IN 1..1000 LOOP
	BEGIN PERFORM repeat('x', 900000000); EXCEPTION WHEN others THEN NULL; END; END LOOP; END $$;
	SELECT refusals FROM sift_memory_usage WHERE kind = 'server';
	DO $$ BEGIN FOR i IN 1..100 LOOP
	BEGIN PERFORM repeat('x', 900000000); EXCEPTION WHEN others THEN NULL; END; END LOOP; END $$;
	SELECT 'alive'});
like($stderr, qr/canceling statement/, 'after 100 refusals a statement is cancelled');
is($stdout, "101\nalive", 'and no sooner, and the session goes on');

# What is let through is counted.
is(run(q{SET sift.memory_limit = '1MB';
	SELECT waived_bytes > 0, refusals FROM sift_memory_usage_backends WHERE pid = pg_backend_pid()}), 't|0',
	'waivers are counted');

# Limits that are set by function, transaction, role and database.
$node->safe_psql('postgres', q{
	CREATE FUNCTION tight(n int) RETURNS int LANGUAGE sql SET sift.memory_limit = '16MB' AS 'SELECT length(repeat(''x'', n))';
	ALTER ROLE other SET sift.memory_limit = '100MB';
	GRANT CREATE ON DATABASE postgres TO other});
($stdout, $stderr) = run(q{SELECT tight(50000000); SELECT tight(1000000); SHOW sift.memory_limit; SELECT length(repeat('x', 50000000))});
like($stderr, qr/HINT:  sift\.memory_limit is 16384 kB/, 'a limit of a function');
is($stdout, "1000000\n-1\n50000000", 'which is over with the function');
($stdout, $stderr) = run(q{BEGIN; SET LOCAL sift.memory_limit = '16MB'; SAVEPOINT s; SELECT length(repeat('x', 50000000)); ROLLBACK TO s;
	SELECT length(repeat('x', 500000)); COMMIT; SELECT length(repeat('x', 50000000))});
like($stderr, qr/HINT:  sift\.memory_limit is 16384 kB/, 'a limit of a transaction');
is($stdout, "500000\n50000000", 'which is over with the transaction');
like((run(q{SELECT length(repeat('x', 200000000))}, extra_params => [ '-U', 'other' ]))[1],
	qr/HINT:  sift\.memory_limit is 102400 kB/, 'a limit of a role');

# A user cannot lift what a superuser has set, in whatever order he tries.
$node->safe_psql('postgres', q{ALTER ROLE other SET sift.max_memory_limit = '64MB'});
my $big = q{SELECT length(repeat('x', 100000000))};
($stdout, $stderr) = run(qq{SET sift.memory_limit = -1; $big; SET sift.memory_limit = '1GB'; $big; RESET sift.memory_limit; $big;
	SET sift.memory_limit = '1MB'; SET sift.memory_limit = '1GB'; $big; DISCARD ALL; $big; SET sift.max_memory_limit = -1; $big;
	BEGIN; SET LOCAL sift.memory_limit = -1; $big; ROLLBACK; $big; SHOW sift.max_memory_limit}, extra_params => [ '-U', 'other' ]);
is(scalar(() = $stderr =~ /HINT:  sift\.max_memory_limit is 65536 kB/g), 8, "a superuser's limit holds");
is($stdout, '64MB', 'and stays');

# Nor by keeping more and more: what is kept from statement to statement is
# bounded, whatever the own limit is set to.
$node->safe_psql('postgres', q{ALTER ROLE other SET sift.max_memory_limit = '16MB'});
my $text = 'x' x 20_000;
my %piles = (
	'prepared statements' => join('', map { "PREPARE a$_ AS SELECT " . join('+', 1 .. 300) . ";\nSET sift.memory_limit = -1;\n" } 1 .. 2000),
	'settings that it makes up' => join('', map { "SET my.v$_ = '$text';\nSET sift.memory_limit = -1;\n" } 1 .. 2000),
	'settings in a function' => join('', map { "SELECT length(set_config('my.v$_', '$text', false));\n" } 1 .. 2000),
	'cursors' => "SET work_mem = '100MB';" . join('', map { "DECLARE c$_ CURSOR WITH HOLD FOR SELECT '$text' FROM generate_series(1, 20);\n" } 1 .. 500),
	'a failed transaction and a long text' => "BEGIN; SELECT 1/0; SELECT 1" . ',1' x 2_000_000 . "; ROLLBACK;\n");
for my $what (sort keys %piles)
{
	($stdout, $stderr) = run("\\o /dev/null\n$piles{$what}\n\\o\nSELECT 'peak', peak_bytes, bytes FROM sift_memory_usage WHERE kind = 'server'; DISCARD ALL; SELECT 'alive'", extra_params => [ '-U', 'other' ]);
	my ($peak) = $stdout =~ /^peak\|(\d+)/m;
	ok(defined $peak && $peak < (16 + 16 + 2) * 1024 * 1024, "bounded by the superuser's limit: $what");
	like($stdout, qr/alive$/, 'and the session is not trapped');
}

# What cannot be refused, the buffers of temporary tables, does not trap.
($stdout, $stderr) = run(q{SET temp_buffers = '4GB'; CREATE TEMP TABLE b (i int); INSERT INTO b VALUES (1);
	SELECT 1; SELECT count(*) > 0 FROM sift_memory_usage_backends; DISCARD ALL; SELECT count(*) > 0 FROM pg_class; SELECT 'alive'}, extra_params => [ '-U', 'other' ]);
like($stdout, qr/1\nt\nt\nalive$/, 'buffers of temporary tables do not trap a session');

# Memory that is freed in another subtransaction than it was taken in.
($stdout, $stderr) = run(q{SET sift.memory_limit = '64MB';
	BEGIN; DECLARE c SCROLL CURSOR FOR SELECT repeat('x', 100) FROM generate_series(1, 100000);
	SAVEPOINT a; MOVE ALL IN c; SAVEPOINT b; CLOSE c; ROLLBACK TO a; RELEASE a; COMMIT;
	SELECT bytes < 8000000 FROM sift_memory_usage WHERE kind = 'server'});
is($stdout, 't', 'memory that another subtransaction took');

# A reclaimer that raises or hangs harms its own statement and nothing else.
$node->safe_psql('postgres', 'CREATE EXTENSION sift_test');
for my $bad ([ 'false', qr/ERROR:  XX000: a reclaimer that raises\nCONTEXT:  reclaimer "bad"/m ], [ 'true', qr/ERROR:  57014: .*statement timeout\nCONTEXT:  reclaimer "bad"/m ])
{
	($stdout, $stderr) = run(qq{SELECT sift_test_bad_reclaimer($bad->[0]); SET sift.memory_limit = '32MB'; SET statement_timeout = '1s';
		\\set VERBOSITY verbose
		\\set SHOW_CONTEXT errors
		$big; SELECT 'between'; $big; SELECT sift_test_keep('rows', 'SELECT repeat(\$\$x\$\$, 1000) FROM generate_series(1, 100000)');
		SELECT 'alive', count(*) FROM pg_class WHERE relname = 'pg_class'});
	is(scalar(() = $stderr =~ /$bad->[1]/mg), 3, "a reclaimer that does harm ($bad->[0])") or diag($stderr);
	like($stdout, qr/^between\nalive\|1$/m, 'and the session goes on');
}

unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'the server is whole');
$node->stop;
done_testing();
