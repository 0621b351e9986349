WITH moment AS MATERIALIZED (SELECT :now AS now),
lanes (lane, priority, ready) AS (SELECT * FROM unnest($3, $4, $5))
:ready_items
