SELECT coalesce(
           (SELECT position FROM tidelock.events WHERE position <= $2 ORDER BY position DESC LIMIT 1 OFFSET $3), 0),
       (SELECT min(last_before) FROM tidelock.epochs WHERE last_before < $1 AND $1 < epoch)
