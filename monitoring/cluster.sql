-- Who holds what over all nodes of a cluster: a schema that asks each node
-- through postgres_fdw.  doc/monitoring.md tells how to use it.
--
-- It is run once, on the primary, by a superuser, in a database that has the
-- extension sift and a role sift_watch: psql -1 -f cluster.sql.  Standbys get
-- it with the data, so that any node can be asked when others are down.
--
-- A node that does not answer is one row, with the reason.  Nodes are asked one
-- after the other, each by a new connection, which is given up after 3 seconds.
-- A node that accepts it and then hangs is not given up: that takes a
-- statement_timeout of who asks.

\set ON_ERROR_STOP on

CREATE EXTENSION IF NOT EXISTS postgres_fdw;
SELECT format('GRANT USAGE ON SCHEMA %I TO sift_watch', nspname)
FROM pg_extension JOIN pg_namespace AS n ON n.oid = extnamespace WHERE extname = 'sift' \gexec

-- All here belongs to sift_watch, a role that can log in and see, and nothing
-- more: it alone has the passwords of the nodes.
CREATE SCHEMA sift_cluster AUTHORIZATION sift_watch;
GRANT USAGE ON SCHEMA sift_cluster TO pg_monitor;

-- A node is a foreign server and a schema of foreign tables, both called
-- sift_node_NAME.  It must be up when it is added.  A session of its own each
-- time, whose statement_timeout is none: a cancel over there is not told from
-- one's own, so it would end the query.  One fetch: all of a node's rows or none.
CREATE PROCEDURE sift_cluster.add_node(node text, host text, port int, password text)
LANGUAGE plpgsql AS $$
DECLARE
	name text := 'sift_node_' || node;
	me text := current_setting('role');
	home name;
BEGIN
	SELECT nspname INTO STRICT home
	FROM pg_extension JOIN pg_namespace AS n ON n.oid = extnamespace WHERE extname = 'sift';
	EXECUTE format($sql$CREATE SERVER %I FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L,
		connect_timeout '3', keep_connections 'off', options '-c statement_timeout=0', fetch_size '100000')$sql$,
		name, host, port, current_database());
	EXECUTE format('CREATE USER MAPPING FOR sift_watch SERVER %I OPTIONS (user %L, password %L)', name, 'sift_watch', password);
	EXECUTE format('GRANT USAGE ON FOREIGN SERVER %I TO sift_watch', name);
	EXECUTE format('CREATE SCHEMA %I AUTHORIZATION sift_watch', name);
	SET LOCAL ROLE sift_watch;
	EXECUTE format('IMPORT FOREIGN SCHEMA %I LIMIT TO (sift_memory_usage_backends, sift_memory_usage_total, sift_memory_refusals)
		FROM SERVER %I INTO %I', home, name, name);
	PERFORM set_config('role', me, true);
END $$;
REVOKE ALL ON PROCEDURE sift_cluster.add_node FROM PUBLIC;

CREATE PROCEDURE sift_cluster.drop_node(node text)
LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('DROP SERVER %I CASCADE', 'sift_node_' || node);
	EXECUTE format('DROP SCHEMA %I', 'sift_node_' || node);
END $$;
REVOKE ALL ON PROCEDURE sift_cluster.drop_node FROM PUBLIC;

SET ROLE sift_watch;

CREATE VIEW sift_cluster.nodes AS
	SELECT substr(srvname, length('sift_node_') + 1) AS node
	FROM pg_foreign_server WHERE srvname LIKE 'sift\_node\_%';

-- Each of these asks one node for one view.  They run as sift_watch, whoever calls.
CREATE FUNCTION sift_cluster.memory_of(node text)
RETURNS TABLE (pid int, leader_pid int, backend_type text, datname text, usename text, limit_bytes bigint, charged_bytes bigint,
	peak_bytes bigint, refusals bigint, rss_anon_bytes bigint, free_heap_bytes bigint, outside_bytes bigint, error text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	detail text;
BEGIN
	RETURN QUERY EXECUTE format('SELECT pid, leader_pid, backend_type, datname, usename, limit_bytes, charged_bytes,
		peak_bytes, refusals, rss_anon_bytes, free_heap_bytes, outside_bytes, NULL
		FROM %I.sift_memory_usage_backends', 'sift_node_' || node);
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	error := regexp_replace(concat_ws(': ', SQLERRM, nullif(detail, '')), '\s+', ' ', 'g');
	RETURN NEXT;
END $$;

CREATE FUNCTION sift_cluster.total_of(node text)
RETURNS TABLE (limit_bytes bigint, charged_bytes bigint, peak_bytes bigint, backends bigint, refusals bigint, error text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	detail text;
BEGIN
	RETURN QUERY EXECUTE format('SELECT limit_bytes, charged_bytes, peak_bytes, backends, refusals, NULL
		FROM %I.sift_memory_usage_total', 'sift_node_' || node);
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	error := regexp_replace(concat_ws(': ', SQLERRM, nullif(detail, '')), '\s+', ' ', 'g');
	RETURN NEXT;
END $$;

CREATE FUNCTION sift_cluster.refusals_of(node text)
RETURNS TABLE (at timestamptz, pid int, usename text, datname text, queryid bigint, context_name text, kind text,
	requested_bytes bigint, charged_bytes bigint, limit_bytes bigint, top_contexts text[], error text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	detail text;
BEGIN
	RETURN QUERY EXECUTE format('SELECT at, pid, usename, datname, queryid, context_name, kind,
		requested_bytes, charged_bytes, limit_bytes, top_contexts, NULL
		FROM %I.sift_memory_refusals', 'sift_node_' || node);
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	error := regexp_replace(concat_ws(': ', SQLERRM, nullif(detail, '')), '\s+', ' ', 'g');
	RETURN NEXT;
END $$;

CREATE VIEW sift_cluster.memory AS
	SELECT n.node, m.* FROM sift_cluster.nodes AS n, LATERAL sift_cluster.memory_of(n.node) AS m;
CREATE VIEW sift_cluster.total AS
	SELECT n.node, t.* FROM sift_cluster.nodes AS n, LATERAL sift_cluster.total_of(n.node) AS t;
CREATE VIEW sift_cluster.refusals AS
	SELECT n.node, r.* FROM sift_cluster.nodes AS n, LATERAL sift_cluster.refusals_of(n.node) AS r;

REVOKE ALL ON FUNCTION sift_cluster.memory_of, sift_cluster.total_of, sift_cluster.refusals_of FROM PUBLIC;
GRANT EXECUTE ON FUNCTION sift_cluster.memory_of, sift_cluster.total_of, sift_cluster.refusals_of TO pg_monitor;
GRANT SELECT ON sift_cluster.nodes, sift_cluster.memory, sift_cluster.total, sift_cluster.refusals TO pg_monitor;

RESET ROLE;
