-- name: extents
-- Where what is known of each stream begins, and its position.
select s.stream_id, least(f.first, s.start_offset) as from_offset, s.position as until_offset
from lockstep.stream s
left join lateral (
    select lower(c.offsets) as first from lockstep.coverage c where c.stream_id = s.stream_id order by lower(c.offsets) limit 1) f on true
where s.stream_id = any(%(streams)s) order by s.stream_id

-- name: stamps
-- Which segment lies at each of so many places of each stream's stretch, and when its records were made.
select distinct on (s.stream_id, c.from_offset) s.stream_id, c.from_offset, c.until_offset, c.batch_id,
    u.min_timestamp, u.max_timestamp
from unnest(%(streams)s::int[], %(froms)s::bigint[], %(untils)s::bigint[]) s (stream_id, from_offset, until_offset)
cross join generate_series(0, %(places)s) g (place)
cross join lateral (
    select lower(c.offsets) as from_offset, upper(c.offsets) as until_offset, c.batch_id from lockstep.coverage c
    where c.stream_id = s.stream_id and c.kind = 'batch'
      and lower(c.offsets) <= s.from_offset + ((s.until_offset - s.from_offset)::numeric * g.place / %(places)s)::bigint
    order by lower(c.offsets) desc limit 1) c
-- offset 0: each look is one row of two keys, where the planner would read all streams of each batch
cross join lateral (
    select u.min_timestamp, u.max_timestamp from lockstep.commit m
    join lockstep.result u on u.batch_id = m.batch_id and u.token = m.token and u.stream_id = m.stream_id
    where m.batch_id = c.batch_id and m.stream_id = s.stream_id offset 0) u
where c.until_offset > s.from_offset
order by s.stream_id, c.from_offset

-- name: crowded_streams
-- The streams with more segments in their stretch than so many.
select s.stream_id
from unnest(%(streams)s::int[], %(froms)s::bigint[], %(untils)s::bigint[]) s (stream_id, from_offset, until_offset)
where exists (
    select from lockstep.coverage c
    where c.stream_id = s.stream_id and c.kind = 'batch' and lower(c.offsets) >= s.from_offset and lower(c.offsets) < s.until_offset
    order by lower(c.offsets) offset %(most)s)
order by s.stream_id

-- name: segments_with_stamps
-- Every segment of each stream's stretch with its times; one that upkeep has merged has no first.
select s.stream_id, c.from_offset, c.until_offset, c.batch_id, b.lane, b.closed_at,
    case when g.offsets = int8range(c.from_offset, c.until_offset) then u.min_timestamp end as min_timestamp, u.max_timestamp
from unnest(%(streams)s::int[], %(froms)s::bigint[], %(untils)s::bigint[]) s (stream_id, from_offset, until_offset)
cross join lateral (
    select lower(c.offsets) as from_offset, upper(c.offsets) as until_offset, c.batch_id from lockstep.coverage c
    where c.stream_id = s.stream_id and c.kind = 'batch' and lower(c.offsets) < s.until_offset
      and lower(c.offsets) >= coalesce((
          select lower(o.offsets) from lockstep.coverage o
          where o.stream_id = s.stream_id and lower(o.offsets) <= s.from_offset order by lower(o.offsets) desc limit 1), 0)
      and upper(c.offsets) > s.from_offset
    order by lower(c.offsets)) c
join lockstep.commit m on m.batch_id = c.batch_id and m.stream_id = s.stream_id
join lockstep.result u on u.batch_id = m.batch_id and u.token = m.token and u.stream_id = m.stream_id
join lockstep.batch b on b.batch_id = m.batch_id
join lockstep.batch_range g on g.batch_id = m.batch_id and g.stream_id = m.stream_id
order by s.stream_id, c.from_offset

-- name: drawn_in_parts
-- What lies at so many places of each stream's stretch, with its times; neighbours of one lane that begin in one part of the span are one row.
with looks as (
    select distinct on (s.stream_id, c.from_offset) s.stream_id, c.from_offset, c.until_offset, c.batch_id, b.lane, b.closed_at,
        u.min_timestamp, u.max_timestamp
    from unnest(%(streams)s::int[], %(froms)s::bigint[], %(untils)s::bigint[]) s (stream_id, from_offset, until_offset)
    cross join generate_series(0, %(places)s) g (place)
    cross join lateral (
        select lower(c.offsets) as from_offset, upper(c.offsets) as until_offset, c.batch_id from lockstep.coverage c
        where c.stream_id = s.stream_id and c.kind = 'batch'
          and lower(c.offsets) <= s.from_offset + ((s.until_offset - s.from_offset)::numeric * g.place / %(places)s)::bigint
        order by lower(c.offsets) desc limit 1) c
    join lockstep.commit m on m.batch_id = c.batch_id and m.stream_id = s.stream_id
    join lockstep.result u on u.batch_id = m.batch_id and u.token = m.token and u.stream_id = m.stream_id
    join lockstep.batch b on b.batch_id = m.batch_id
    where c.until_offset > s.from_offset and u.min_timestamp is not null
    order by s.stream_id, c.from_offset),
reaching as (
    select l.stream_id, l.from_offset, l.batch_id, l.lane, l.closed_at, l.min_timestamp as since,
        coalesce(lead(l.from_offset) over w, l.until_offset) as until_offset,
        coalesce(lead(l.min_timestamp) over w, l.max_timestamp) as until,
        floor(extract(epoch from l.min_timestamp - %(since)s) / %(part)s) as part
    from looks l window w as (partition by l.stream_id order by l.from_offset)),
marked as (
    select r.*, (r.lane, r.part) is distinct from (lag(r.lane) over w, lag(r.part) over w) as begins
    from reaching r where r.since < %(until)s and r.until >= %(since)s
    window w as (partition by r.stream_id order by r.from_offset)),
numbered as (
    select m.*, count(*) filter (where m.begins) over (partition by m.stream_id order by m.from_offset) as number from marked m)
select n.stream_id, n.lane, min(n.from_offset) as from_offset, max(n.until_offset) as until_offset, max(n.batch_id) as batch_id,
    max(n.closed_at) as closed_at, min(n.since) as since, max(n.until) as until
from numbered n group by n.stream_id, n.number, n.lane order by n.stream_id, from_offset

-- name: times_around
-- The last time below each stretch and the first time above it: where what holds no record lies in time.
select s.stream_id, s.from_offset, b.max_timestamp as since, a.min_timestamp as until
from unnest(%(streams)s::int[], %(froms)s::bigint[], %(untils)s::bigint[]) s (stream_id, from_offset, until_offset)
left join lateral (
    select u.max_timestamp from lockstep.coverage c
    join lockstep.commit m on m.batch_id = c.batch_id and m.stream_id = c.stream_id
    join lockstep.result u on u.batch_id = m.batch_id and u.token = m.token and u.stream_id = m.stream_id
    where c.stream_id = s.stream_id and lower(c.offsets) < s.from_offset and u.max_timestamp is not null
    order by lower(c.offsets) desc limit 1) b on true
left join lateral (
    select u.min_timestamp from lockstep.coverage c
    join lockstep.commit m on m.batch_id = c.batch_id and m.stream_id = c.stream_id
    join lockstep.result u on u.batch_id = m.batch_id and u.token = m.token and u.stream_id = m.stream_id
    where c.stream_id = s.stream_id and lower(c.offsets) >= s.until_offset and u.min_timestamp is not null
    order by lower(c.offsets) limit 1) a on true

-- name: rejects_by_time
-- How many rejects lie at each place of a stretch of time.
select j.stream_id, floor(extract(epoch from j.timestamp - %(since)s) / %(step)s)::bigint as place,
    count(*) as rejects, min(j."offset") as first, min(j.timestamp) as at
from unnest(%(streams)s::int[], %(froms)s::bigint[], %(untils)s::bigint[]) s (stream_id, from_offset, until_offset)
join lockstep.reject j on j.stream_id = s.stream_id and j."offset" >= s.from_offset and j."offset" < s.until_offset
where j.timestamp >= %(since)s and j.timestamp < %(until)s
group by 1, 2 order by 1, 2
