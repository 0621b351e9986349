SELECT :item_columns
FROM unnest($1, $2) AS a (queue, key)
JOIN tidelock.items i ON i.queue = a.queue AND i.key = a.key
ORDER BY i.queue, i.key FOR NO KEY UPDATE OF i
