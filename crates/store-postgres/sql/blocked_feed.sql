SELECT coalesce(t.pid, 0), a.usename::text, a.application_name, coalesce(host(a.client_addr), 'local'), a.state,
       (extract(epoch FROM clock_timestamp() - a.xact_start) * 1000000)::bigint,
       greatest((extract(epoch FROM clock_timestamp() - a.query_start) * 1000000)::bigint,
                (SELECT :now - e.recorded_at FROM tidelock.events e WHERE e.position > t.after
                 ORDER BY e.position LIMIT 1)),
       s.last - t.after
FROM tidelock.settled() s JOIN tidelock.tickets t ON t.after < s.last
LEFT JOIN pg_stat_activity a ON a.pid = t.pid
ORDER BY t.after LIMIT 1
