-- name: now_in_zone
-- Fails for a time zone that the database does not know.
select clock_timestamp() at time zone %(zone)s as now
