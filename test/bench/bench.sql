-- What the bench measures, and what comes of it.  For the script "run".
CREATE EXTENSION sift_bench;

-- A backend each for all of these, in this order, in each round.
CREATE TABLE bench_case (
    number int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    label text UNIQUE,
    work text,          -- reset: fill a context and reset it
                        -- queue: free the oldest chunk, alloc a new one
                        -- zero: alloc and free the only chunk
                        -- random: free any chunk, alloc a new one
                        -- fill: fill an empty context
                        -- free: free all chunks in random order
                        -- touch: fill for the first time, a page each
    min_size int,
    max_size int,
    alive int8
);
INSERT INTO bench_case (label, work, min_size, max_size, alive) VALUES
    ('reset 48 B, 7 kB', 'reset', 48, 48, 7 << 10),
    ('reset 48 B, 1 MB', 'reset', 48, 48, 1 << 20),
    ('reset 48 B, 64 MB', 'reset', 48, 48, 64 << 20),
    ('reset 48 B, 256 MB', 'reset', 48, 48, 256 << 20),
    ('queue 16 B, 1 MB', 'queue', 16, 16, 1 << 20),
    ('queue 48 B, 1 MB', 'queue', 48, 48, 1 << 20),
    ('queue 64 B, 1 MB', 'queue', 64, 64, 1 << 20),
    ('queue 128 B, 1 MB', 'queue', 128, 128, 1 << 20),
    ('queue 512 B, 1 MB', 'queue', 512, 512, 1 << 20),
    ('queue 40-400 B, 1 MB', 'queue', 40, 400, 1 << 20),
    ('queue 128 B, 256 MB', 'queue', 128, 128, 256 << 20),
    ('queue 40-400 B, 256 MB', 'queue', 40, 400, 256 << 20),
    ('zero 64 B', 'zero', 64, 64, 0),
    ('zero 4 kB', 'zero', 4 << 10, 4 << 10, 0),
    ('zero 64 kB', 'zero', 64 << 10, 64 << 10, 0),
    ('zero 1 MB', 'zero', 1 << 20, 1 << 20, 0),
    ('random 48 B, 1 MB', 'random', 48, 48, 1 << 20),
    ('random 40-400 B, 1 MB', 'random', 40, 400, 1 << 20),
    ('random 48 B, 256 MB', 'random', 48, 48, 256 << 20),
    ('random 40-400 B, 256 MB', 'random', 40, 400, 256 << 20),
    ('fill 40-400 B, 256 MB', 'fill', 40, 400, 256 << 20),
    ('free 40-400 B, 256 MB', 'free', 40, 400, 256 << 20),
    ('first touch, 1 GB', 'touch', 64 << 10, 64 << 10, 1 << 30);

CREATE TABLE bench_kind (
    number int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text UNIQUE
);
INSERT INTO bench_kind (kind) VALUES
    ('aset'), ('generation'), ('bump'), ('slab'), ('row'), ('batch'), ('bare'),
    ('row inline'), ('batch inline'), ('bare inline'), ('floor'),
    ('malloc'), ('jemalloc'), ('mimalloc'), ('tcmalloc');

-- The most that a kind may take, as a part of what another one takes.
CREATE TABLE bench_target (
    label text REFERENCES bench_case (label),
    kind text,
    base text,
    trained bool,
    most_on_15 numeric,
    most numeric        -- on 17 and 18
);
INSERT INTO bench_target VALUES
    ('reset 48 B, 1 MB', 'batch', 'aset', false, 0.12, 0.12),
    ('reset 48 B, 1 MB', 'batch', 'aset', true, 0.85, 0.85),
    ('reset 48 B, 1 MB', 'bare', 'bump', false, NULL, 1.0),
    ('reset 48 B, 1 MB', 'bare', 'bump', true, NULL, 0.9),
    ('reset 48 B, 1 MB', 'bare inline', 'bump', false, NULL, 0.25),
    ('reset 48 B, 1 MB', 'bare inline', 'bump', true, NULL, 0.25),
    ('reset 48 B, 256 MB', 'batch', 'aset', false, 0.10, 0.10),
    ('reset 48 B, 256 MB', 'batch', 'aset', true, 0.10, 0.10),
    ('reset 48 B, 256 MB', 'bare', 'bump', false, NULL, 0.10),
    ('reset 48 B, 256 MB', 'bare', 'bump', true, NULL, 0.10),
    ('queue 40-400 B, 256 MB', 'row', 'aset', false, 0.2, 0.2),
    ('fill 40-400 B, 256 MB', 'row', 'aset', false, 0.15, 0.15),
    ('free 40-400 B, 256 MB', 'row', 'aset', false, 0.6, 0.6);
INSERT INTO bench_target
    SELECT label, kind, 'aset', trained, most_on_15, most
    FROM bench_case,
        (VALUES ('row', 0.98, 0.88), ('row inline', 0.55, 0.55)) AS t (kind, most_on_15, most),
        (VALUES (false), (true)) AS s (trained)
    WHERE work = 'queue' AND max_size <= 64;
INSERT INTO bench_target
    SELECT label, 'row', 'aset', trained, 0.35, 0.35
    FROM bench_case, (VALUES (false), (true)) AS s (trained)
    WHERE work = 'zero' AND max_size >= 64 << 10;
INSERT INTO bench_target
    SELECT label, kind, 'aset', false, 1.1, 1.1
    FROM bench_case, (VALUES ('row'), ('row inline')) AS t (kind)
    WHERE work = 'random' AND alive >= 256 << 20;

-- What is done once a backend is measured fresh only.
CREATE VIEW bench_measurement AS
    SELECT c.number AS case_number, k.number AS kind_number, label, kind, work, min_size, max_size, alive, trained
    FROM bench_case c, bench_kind k, (VALUES (false), (true)) state (trained)
    WHERE NOT trained OR work IN ('reset', 'queue', 'zero');

CREATE UNLOGGED TABLE bench_result (
    label text,
    kind text,
    trained bool,
    ns float8,          -- an operation; null where the kind cannot do the work
    held float8         -- of "random": bytes held, as a multiple of those asked for
);

-- Rows of several values: to free the oldest and make another.
CREATE TABLE bench_row_kind (
    number int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text,
    most numeric        -- ns, as a part of malloc's
);
INSERT INTO bench_row_kind (kind, most) VALUES
    ('malloc', NULL), ('jemalloc', NULL), ('mimalloc', NULL), ('tcmalloc', NULL), ('aset', NULL),
    ('aset tuple', NULL), ('row formed', 0.7), ('row ready', 0.3), ('store ready', NULL);
CREATE UNLOGGED TABLE bench_row_result (
    kind text,
    columns int,
    alive int,
    ns float8,
    bytes float8        -- a row
);

-- 500 MB of rows of which all but one in "keep" are freed: what the process has
-- grown by.
CREATE TABLE bench_pin_kind (
    number int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text
);
INSERT INTO bench_pin_kind (kind) VALUES
    ('aset'), ('generation'), ('malloc'), ('jemalloc'), ('mimalloc'), ('tcmalloc'), ('row'), ('store');
CREATE UNLOGGED TABLE bench_pin_result (
    kind text,
    keep int,
    live int8,          -- bytes of the rows that stay
    at_once int8,
    later int8,         -- 10 seconds later
    trimmed int8        -- when the allocator was asked to give back all it can
);

-- How long the first touch of a page takes, on which "fresh" depends most.
CREATE UNLOGGED TABLE bench_touch (
    ns float8
);

-- Of all rounds: a row a case, kind and state of the C library.
CREATE VIEW bench_figure AS
    SELECT label, kind, trained, percentile_cont(0.5) WITHIN GROUP (ORDER BY ns) AS ns,
        min(ns) AS min_ns, max(ns) AS max_ns, max(held) AS held, count(*) AS rounds
    FROM bench_result
    WHERE ns IS NOT NULL
    GROUP BY label, kind, trained;

CREATE VIEW bench_ratio AS
    SELECT c.number AS case_number, k.number AS kind_number, f.*,
        f.ns / aset.ns AS to_aset, f.ns / bump.ns AS to_bump
    FROM bench_figure f
    JOIN bench_case c USING (label)
    JOIN bench_kind k USING (kind)
    JOIN bench_figure aset ON (aset.label, aset.kind, aset.trained) = (f.label, 'aset', f.trained)
    LEFT JOIN bench_figure bump ON (bump.label, bump.kind, bump.trained) = (f.label, 'bump', f.trained);

-- The tables that are printed.
CREATE VIEW bench_table AS
    SELECT label AS "case", kind,
        round(fresh.ns::numeric, 2) AS "fresh ns",
        round(fresh.to_aset::numeric, 3) AS "of aset",
        round(fresh.to_bump::numeric, 3) AS "of bump",
        round(trained.ns::numeric, 2) AS "trained ns",
        round(trained.to_aset::numeric, 3) AS "of aset ",
        round(trained.to_bump::numeric, 3) AS "of bump ",
        round(fresh.held::numeric, 2) AS held
    FROM (SELECT * FROM bench_ratio WHERE NOT trained) fresh
    LEFT JOIN (SELECT * FROM bench_ratio WHERE trained) trained
        USING (case_number, kind_number, label, kind)
    ORDER BY case_number, kind_number;

CREATE VIEW bench_row_table AS
    SELECT number, kind, columns, alive, ns, ns / first_value(ns) OVER w AS to_malloc,
        bytes, bytes / first_value(bytes) OVER w AS bytes_to_malloc, most AS target,
        CASE WHEN ns <= most * first_value(ns) OVER w THEN 'met' WHEN most IS NOT NULL THEN 'missed' END AS verdict
    FROM (SELECT kind, columns, alive, percentile_cont(0.5) WITHIN GROUP (ORDER BY ns) AS ns, max(bytes) AS bytes
          FROM bench_row_result GROUP BY kind, columns, alive) r
    JOIN bench_row_kind USING (kind)
    WINDOW w AS (PARTITION BY columns, alive ORDER BY number)
    ORDER BY alive, columns, number;

CREATE VIEW bench_pin_table AS
    SELECT number, kind, keep, max(live) AS live, max(at_once) AS at_once, max(later) AS later, max(trimmed) AS trimmed
    FROM bench_pin_result JOIN bench_pin_kind USING (kind)
    GROUP BY number, kind, keep
    ORDER BY keep, number;

CREATE VIEW bench_verdict AS
    SELECT t.label AS "case", t.kind, t.base AS "of", state.name AS malloc,
        round((f.ns / b.ns)::numeric, 3) AS ratio, version.most AS target,
        CASE WHEN f.ns / b.ns <= version.most THEN 'met' ELSE 'missed' END AS verdict
    FROM bench_target t
    CROSS JOIN LATERAL (SELECT CASE WHEN current_setting('server_version_num')::int < 160000
        THEN most_on_15 ELSE t.most END AS most) version
    CROSS JOIN LATERAL (SELECT CASE WHEN t.trained THEN 'trained' ELSE 'fresh' END AS name) state
    JOIN bench_case c USING (label)
    JOIN bench_figure f ON (f.label, f.kind, f.trained) = (t.label, t.kind, t.trained)
    JOIN bench_figure b ON (b.label, b.kind, b.trained) = (t.label, t.base, t.trained)
    ORDER BY c.number, t.kind, t.trained;

-- Bytes that a row context holds, as a multiple of those that were asked for.
CREATE VIEW bench_held AS
    SELECT label AS "case", kind, round(held::numeric, 2) AS held, 2.5 AS target,
        CASE WHEN held <= 2.5 THEN 'met' ELSE 'missed' END AS verdict
    FROM bench_ratio
    WHERE held IS NOT NULL AND kind LIKE 'row%' AND NOT trained
    ORDER BY case_number, kind_number;
