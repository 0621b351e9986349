SELECT greatest(
    (SELECT max(position) FROM tidelock.events WHERE position <= $1),
    (SELECT max(last_before) FROM tidelock.epochs WHERE last_before <= $1),
    (SELECT m.position_floor FROM tidelock.meta m
     WHERE m.position_floor <= $1 AND NOT EXISTS (SELECT FROM tidelock.epochs e WHERE e.epoch = m.position_floor)))
