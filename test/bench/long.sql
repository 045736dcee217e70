-- One round of the long run, number :round, for the script "long".

-- 1. Bulk inserts, updates and deletes, with moves.
SELECT unify_write('rows', 10000, 5000, 2000, :round * 1000);
SELECT unify_write('rows', 10000, 8000, 1000, :round * 1000 + 1);
SELECT unify_move('rows', 7000, :'files');
SELECT unify_write('rows', 2000, 12000, 3000, :round * 1000 + 2);
SELECT note(:round, 'rows');
SELECT unify_move('rows', 9000, :'files');
\! rm -r "$FILES"

-- 2. 500 tables are created and dropped.
SELECT unify_register('table ' || i, :'allocator') FROM generate_series(1, 500) i;
SELECT unify_write('table ' || i, 20, 0, 0, i), unify_write('table ' || i, 0, 10, 5, i) FROM generate_series(1, 500) i;
SELECT note(:round, 'tables');
SELECT unify_drop('table ' || i) FROM generate_series(1, 500) i;

-- 3. Wide rows with long strings.
SELECT unify_register('wide', :'allocator');
SELECT unify_load('wide', format('SELECT %s FROM generate_series(1, 2000) i',
    string_agg(format('repeat(chr(97 + i %% 26), (i * %s + %s) %% 900)', c, :round), ', ')))
FROM generate_series(1, 40) c;
SELECT note(:round, 'wide');
SELECT unify_move('wide', 1000, :'files');
SELECT unify_drop('wide');
\! rm -r "$FILES"

-- 4. Transactions with savepoints in one another, which all roll back.
SELECT format('BEGIN; SELECT unify_register(%L, %L); SELECT savepoints(20); SELECT unify_drop(%1$L); ROLLBACK', 'savepoints', :'allocator')
FROM generate_series(1, 10) \gexec
SELECT note(:round, 'end');
