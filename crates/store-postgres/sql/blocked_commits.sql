SELECT b.pid, b.usename::text, b.application_name, coalesce(host(b.client_addr), 'local'), b.state,
       (extract(epoch FROM clock_timestamp() - b.xact_start) * 1000000)::bigint,
       (extract(epoch FROM clock_timestamp() - min(w.query_start)) * 1000000)::bigint, count(DISTINCT w.pid)
FROM pg_stat_activity w, unnest(pg_blocking_pids(w.pid)) AS p (pid) JOIN pg_stat_activity b ON b.pid = p.pid
WHERE w.datname = current_database() AND w.wait_event_type = 'Lock' AND b.wait_event_type IS DISTINCT FROM 'Lock'
  AND EXISTS (
      SELECT FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE l.pid = w.pid AND n.nspname = $1)
GROUP BY b.pid, b.usename, b.application_name, b.client_addr, b.state, b.xact_start
ORDER BY b.xact_start NULLS LAST LIMIT 1
