-- A few characters of SQL that ask for most of a gigabyte.
-- Reported: related: https://dev.mo4tech.com/talk-about-database-memory-allocation-and-the-importance-of-auditing.html; https://github.com/cockroachdb/cockroach/pull/8073
-- @ends refused
-- @slow
-- @setup
-- @run
SELECT length(repeat('x', 250000000) || repeat('y', 250000000));
SELECT length(lpad('x', 250000000, 'abc'));
SELECT length(format('%s%s%s', r, r, r)) FROM (SELECT repeat('z', 120000000) AS r) q;
SELECT length(replace(repeat('a', 60000000), 'a', 'bbbbb'));
