-- name: tables_with_images
-- The tables with a feed that has images.
select target from lockstep.feed where kept_from < next_number order by target

-- name: trim
-- How many changes were trimmed.
select lockstep.trim_feed(%(target)s, %(most)s) as trimmed
