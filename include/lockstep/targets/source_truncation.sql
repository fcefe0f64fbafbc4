-- name: is_truncation
-- A deletion at a place of the source's log that names no key: it deletes every row from before.
t._deleted and t._source_order is not null and {no_staged_key}

-- name: without_truncations
-- The staged records that have a key.
(select t.* from {rows} t where ({is_truncation}) is not true)

-- name: keep_truncations
-- Each truncation leaves its place behind. Returns the youngest of them by the source's time.
with kept as (
    insert into lockstep.source_truncation (target, stream_id, "offset", "order")
    select %(target)s, t._stream, t._offset, t._source_order from {rows} t where {is_truncation}
    returning stream_id, "offset", "order")
select stream_id, "offset", "order", count(*) over () as number from kept k order by {time} desc, stream_id, "offset" limit 1

-- name: floor
-- The last truncation of the source that this pipeline has read.
select f."order" from lockstep.source_truncation f join lockstep.stream s using (stream_id)
where f.target = %(target)s and s.pipeline = %(pipeline)s order by f."order" desc limit 1

-- name: from_above
-- The staged records from behind the floor, and tombstones without a place.
(select t.* from {rows} t where (t._source_order < {floor}) is not true)

-- name: drop_older
-- Records from before the floor change nothing.
delete from newest n where n._source_order < %(floor)s

-- name: delete_older
-- Rows from before the floor are gone.
delete from {target} t where (t._source_order >= %(floor)s) is not true

-- name: older_than_floor
-- The first record of a change that is older by its place and younger by its time than the floor.
select coalesce(to_jsonb(s.*) ->> 'topic' || '-' || (to_jsonb(s.*) ->> 'partition'), 'stream ' || s.stream_id) as place,
    n._offset as "offset", ({now} - {was}) / 3600000 as hours
from newest n join lockstep.stream s on s.stream_id = n._stream
where n._source_order < %(floor)s and {was} > 0 and {now} > {was} + %(most)s
order by n._stream, n._offset limit 1

-- name: older_than_rows
-- A truncation that is older by its place and younger by its time than some row.
select coalesce(to_jsonb(s.*) ->> 'topic' || '-' || (to_jsonb(s.*) ->> 'partition'), 'stream ' || s.stream_id) as place,
    %(offset)s::bigint as "offset", ({now} - {was}) / 3600000 as hours
from {target} t cross join lockstep.stream s
where s.stream_id = %(stream_id)s and t._source_order > %(order)s and {was} > 0 and {now} > {was} + %(most)s
order by t._source_order limit 1
