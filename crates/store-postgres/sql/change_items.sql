UPDATE tidelock.items i SET
    lane = n.lane, priority = n.priority, at = n.at, mark = n.mark, due = n.due, hold = n.hold, ready = n.ready,
    attempts = n.attempts, failures = n.failures, expiries = n.expiries, blocked = n.blocked, error = n.error,
    fence = n.fence, worker = n.worker, since = n.since, deadline = n.deadline, settled = n.settled,
    forget_at = n.forget_at
FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
    AS n (:item_names)
WHERE i.queue = n.queue AND i.key = n.key AND (i.fence IS NULL OR i.fence <= n.fence)
