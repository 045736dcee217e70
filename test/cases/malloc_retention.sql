-- Memory that the server has freed but that the C library keeps, because small live pieces lie above it.
-- Reported: https://mail-archive.com/search?f=1&l=pgsql-hackers%40lists.postgresql.org&o=newest&q=subject%3A%22Add+GUC+to+tune+glibc%27s+malloc+implementation.%22; https://dev.shade.cool/yugabyte/postgres-memory-allocation-and-os-memory-allocation-30f1
-- @ends refused
-- @setup
-- @run
SET jit = off;
-- many contexts of their own, freed in another order than they were made
SELECT format('PREPARE m%s AS SELECT %s', i, (SELECT string_agg(format('%s + i + %s', j, i), ', ') FROM generate_series(1, 60) j)) || ' FROM generate_series(1, 2) i' FROM generate_series(1, 4000) i \gexec
SELECT format('DEALLOCATE m%s', i) FROM generate_series(1, 4000) i WHERE i % 200 <> 0 \gexec
SELECT sum(total_bytes) / 1000000 AS contexts_mb FROM pg_backend_memory_contexts;
