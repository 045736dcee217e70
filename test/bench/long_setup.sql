-- What the long run writes down, for the script "long".
CREATE EXTENSION sift;
CREATE EXTENSION unify;

CREATE UNLOGGED TABLE long_note (
    allocator text,
    round int,
    moment text,        -- while the rows, tables, wide rows are there; at the end
    at timestamptz,
    peak_rss int8,      -- VmHWM
    rss int8,           -- RssAnon
    outside int8,       -- of that, what nothing accounts for
    charged int8,
    share numeric       -- of rss, what is accounted
);

-- What this session holds now.
CREATE FUNCTION note(round int, moment text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO long_note
    SELECT current_setting('long.allocator'), round, moment, clock_timestamp(),
           peak_rss_bytes, rss_anon_bytes, outside_bytes, charged_bytes, accounted_share
    FROM sift_memory_usage_backends WHERE pid = pg_backend_pid()
$$;

-- Savepoints in one another; each adds rows, and rolls back when a load fails
-- half way.
CREATE FUNCTION savepoints(depth int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM unify_write('savepoints', 20, 0, 0, depth);
    IF depth > 1 THEN
        PERFORM savepoints(depth - 1);
    END IF;
    PERFORM unify_load('savepoints', 'SELECT i::int8, i::int8, i::float8, ''name''::text, ''note''::text, (1 / (200 - i))::text FROM generate_series(1, 300) i');
EXCEPTION WHEN division_by_zero THEN
END
$$;

-- A row a round and allocator: the most of each figure, and how long it took.
CREATE VIEW long_round AS
    SELECT allocator, round, max(peak_rss) AS peak_rss, max(rss) AS rss, max(outside) AS outside,
        max(charged) AS charged, min(share) AS share, max(rss) FILTER (WHERE moment = 'tables') AS tables_rss,
        extract(epoch FROM max(at) - min(started)) AS seconds
    FROM (SELECT *, lag(at) OVER (PARTITION BY allocator ORDER BY round, at) AS started FROM long_note) n
    WHERE round > 0
    GROUP BY allocator, round;

-- How much a figure grows from round 2 on, as a part of what it was.
CREATE VIEW long_growth AS
    SELECT allocator, figure, count(*) AS rounds,
        min(bytes) FILTER (WHERE round = 2) AS round_2, max(bytes) FILTER (WHERE round = last) AS last,
        regr_slope(bytes, round) AS slope,
        regr_slope(bytes, round) * (max(round) - 2) / min(bytes) FILTER (WHERE round = 2) AS growth
    FROM (SELECT allocator, round, figure, bytes, max(round) OVER () AS last
          FROM long_round, LATERAL (VALUES ('VmHWM', peak_rss), ('RSS', rss), ('outside', outside), ('charged', charged)) v (figure, bytes)
          WHERE round >= 2) f
    GROUP BY allocator, figure;

-- What is printed.
CREATE VIEW long_table AS
    SELECT figure, allocator, round(round_2 / 1048576.0, 1) AS "round 2, MB",
        round(last / 1048576.0, 1) AS "last, MB", round((slope / 1048576)::numeric, 4) AS "MB a round",
        round(seconds::numeric, 2) AS "median s a round"
    FROM long_growth
    JOIN (SELECT allocator, percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS seconds
          FROM long_round GROUP BY allocator) t USING (allocator)
    ORDER BY array_position('{VmHWM,RSS,outside,charged}', figure), array_position('{malloc,aset,sift,store}', allocator);

CREATE VIEW long_verdict AS
    SELECT allocator, figure || ' grows' AS figure, round(growth::numeric, 4) AS value, '< 0.01' AS target,
        CASE WHEN growth < 0.01 THEN 'met' ELSE 'missed' END AS verdict
    FROM long_growth WHERE allocator IN ('sift', 'store') AND figure <> 'charged'
    UNION ALL
    SELECT allocator, 'share accounted', min(share), '>= 0.99', CASE WHEN min(share) >= 0.99 THEN 'met' ELSE 'missed' END
    FROM long_round WHERE allocator IN ('sift', 'store') AND round >= 2 GROUP BY allocator;
