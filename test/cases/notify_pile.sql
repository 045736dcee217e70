-- Notifications wait in memory until commit, with a hash table against duplicates.
-- Reported: https://horton.kehvyn.dev/attachments/113300/download (documentation patch of Nikolay Samokhvalov); https://www.robins.in/2026/01/turbocharging-listennotify-with-40x.html
-- @ends refused
-- @slow
-- @setup
-- @run
BEGIN;
SELECT count(pg_notify('chan' || i % 100, repeat('p', 100) || i)) FROM generate_series(1, 2000000) i;
ROLLBACK;
