-- name: ranges_to_deliver
-- The offsets whose results a batch brings, with their streams' epochs.
select r.stream_id, lower(r.offsets) as from_offset, upper(r.offsets) as until_offset
from lockstep.batch_range r where r.batch_id = %(batch_id)s order by r.stream_id

-- name: lost_range
-- An offset range of a committed batch that it does not own any more, for a replay has taken it over.
select r.stream_id, lower(r.offsets) as from_offset, upper(r.offsets) as until_offset from lockstep.batch_range r
where r.batch_id = %(batch_id)s and not exists (
    select from lockstep.segment g
    where (g.stream_id, g.batch_id, g.token) = (r.stream_id, r.batch_id, %(token)s) and g.offsets = r.offsets)
order by r.stream_id limit 1

-- name: epochs
-- Every stream a pipeline ever had, with the epoch that orders its records among the others'.
select stream_id, epoch from lockstep.stream where pipeline = %(pipeline)s order by stream_id

-- name: former_names
-- What a pipeline was called before. A store may know its streams by one of these names.
select distinct former from lockstep.renaming where pipeline = %(pipeline)s and former <> pipeline order by 1

-- name: staged_types
-- The decoded columns of an attempt's staging table, with their types.
select a.attname as name, format_type(a.atttypid, a.atttypmod) as type from pg_attribute a
where a.attrelid = to_regclass(%(table)s) and a.attnum > 0 and not a.attisdropped and not a.attname = any(%(reserved)s)
order by a.attnum

-- name: take_rows
-- The rows as they travel to a store.
copy (select {columns} from {rows} t) to stdout (format binary)

-- name: open_rows
-- The same rows, for who writes them otherwise than Postgres does; a stream's lie together.
select {columns} from {rows} t order by t._stream, t._offset, t._ordinal

-- name: insert_delivery
-- The store has confirmed that the results are there.
insert into lockstep.delivery (batch_id, token, effect, nonce) values (%(batch_id)s, %(token)s, %(effect)s, %(nonce)s::uuid)

-- name: undelivered
-- Offsets that a batch owns whose delivery was to follow, and was never confirmed: at most once has perhaps lost their results.
select s.topic, s.partition, g.batch_id, lower(g.offsets) as from_offset, upper(g.offsets) as until_offset
from lockstep.segment g join lockstep.stream s using (stream_id)
where s.pipeline = %(pipeline)s and g.batch_id = coalesce(%(batch_id)s, g.batch_id)
  and not exists (select 1 from lockstep.delivery y where y.batch_id = g.batch_id)
  and lockstep.guarantee_of(g.batch_id, g.token) = 'AtMostOnce'
order by g.batch_id, s.partition, g.stream_id

-- name: recorded_segments
-- What batches own, and what they recorded of it; the sums are of distances from a segment's beginning.
select g.stream_id, s.topic, s.partition, g.batch_id, lower(g.offsets) as from_offset, upper(g.offsets) as until_offset,
    u.delivered, u.written, u.filtered, u.rows, u.digest_sum, u.digest_squares, y.batch_id is not null as is_delivered,
    j.records as rejected, j.sum as rejected_sum, j.squares as rejected_squares
from lockstep.segment g join lockstep.stream s using (stream_id)
join lockstep.result u using (batch_id, token, stream_id) left join lockstep.delivery y on y.batch_id = g.batch_id
cross join lateral (
    select count(*) as records, coalesce(sum(d), 0) as sum, coalesce(sum(d * d), 0) as squares
    from (select (r."offset" - lower(g.offsets))::numeric as d from lockstep.reject r
          where r.stream_id = g.stream_id and r."offset" >= lower(g.offsets) and r."offset" < upper(g.offsets)) distances) j
where s.pipeline = %(pipeline)s order by g.stream_id, g.offsets

-- name: former_owners
-- The pipelines that have handed their tables over to this one, or left them to it: their rows are still there.
select o.name from unnest(lockstep.line_of(%(pipeline)s)) as o (name) where o.name <> %(pipeline)s order by 1
