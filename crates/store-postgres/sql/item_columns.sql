queue, key, lane, priority, at, mark, due, hold, ready, attempts, failures, expiries, blocked, error, fence,
worker, since, deadline, settled, forget_at
