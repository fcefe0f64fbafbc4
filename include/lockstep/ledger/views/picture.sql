-- name: streams_of_picture
-- The open streams, in the order of their lanes.
select s.stream_id, s.topic, s.partition, s.incarnation, s.cluster_id, s.topic_id, s.start_offset, s.position
from lockstep.stream s
where s.pipeline = %(pipeline)s and s.retired_at is null
order by s.topic, s.partition

-- name: first_covered
-- Where what is known of these streams begins.
select min(f.first) as first from unnest(%(streams)s::int[]) s (stream_id)
cross join lateral (
    select lower(c.offsets) as first from lockstep.coverage c where c.stream_id = s.stream_id order by lower(c.offsets) limit 1) f

-- name: segments
-- What covers each stream between two offsets, one segment a row, at most so many of a stream and one more that says so.
select s.stream_id, c.from_offset, c.until_offset, c.batch_id, b.lane, b.closed_at
from unnest(%(streams)s::int[]) s (stream_id)
cross join lateral (
    select lower(c.offsets) as from_offset, upper(c.offsets) as until_offset, c.batch_id
    from lockstep.coverage c
    where c.stream_id = s.stream_id and c.kind = 'batch' and lower(c.offsets) < %(until)s
      and lower(c.offsets) >= coalesce((
          select lower(o.offsets) from lockstep.coverage o
          where o.stream_id = s.stream_id and lower(o.offsets) <= %(from)s order by lower(o.offsets) desc limit 1), 0)
      and upper(c.offsets) > %(from)s
    order by lower(c.offsets) limit %(most)s + 1) c
join lockstep.batch b using (batch_id)
order by s.stream_id, c.from_offset

-- name: looks
-- The same where there are more segments than a picture has room for: what lies at each of so many places. Neighbours of one
-- batch are one row, and so are those of one lane in one part of the view.
with looks as (
    select s.stream_id, g.place, s.step, s.until_offset as edge, c.batch_id, b.lane, b.closed_at,
        (g.place - s.from_offset) / greatest(1, (s.until_offset - s.from_offset) / %(parts)s) as part
    from unnest(%(streams)s::int[], %(froms)s::bigint[], %(untils)s::bigint[], %(steps)s::bigint[])
        s (stream_id, from_offset, until_offset, step)
    cross join generate_series(s.from_offset, s.until_offset - 1, s.step) g (place)
    cross join lateral (
        select upper(c.offsets) as until_offset, c.batch_id
        from lockstep.coverage c
        where c.stream_id = s.stream_id and c.kind = 'batch' and lower(c.offsets) < g.place + s.step
        order by lower(c.offsets) desc limit 1) c
    join lockstep.batch b using (batch_id)
    where c.until_offset > g.place),
marked as (
    select l.*, l.place - l.step is distinct from lag(l.place) over w or l.lane <> lag(l.lane) over w
        or (l.part <> lag(l.part) over w and l.batch_id <> lag(l.batch_id) over w) as begins
    from looks l window w as (partition by l.stream_id order by l.place)),
numbered as (
    select m.*, count(*) filter (where m.begins) over (partition by m.stream_id order by m.place) as number from marked m)
select n.stream_id, n.lane, min(n.place) as from_offset, least(max(n.place) + n.step, n.edge) as until_offset,
    max(n.batch_id) as batch_id, max(n.closed_at) as closed_at
from numbered n group by n.stream_id, n.number, n.lane, n.step, n.edge order by n.stream_id, from_offset

-- name: uncovered
-- What nobody covers between where a log or pipeline begins and its position, exactly, however narrow.
with shown as (
    select s.stream_id, greatest(s.start, lockstep.read_before(s.stream_id)) as start, s.position, o.stream_id as owner
    from unnest(%(streams)s::int[], %(starts)s::bigint[], %(positions)s::bigint[]) s (stream_id, start, position)
    join lockstep.stream t using (stream_id)
    -- a partition's growth leaves what was covered before it with an older stream of the same incarnation
    join lockstep.stream o on o.pipeline = t.pipeline and o.topic = t.topic
        and o.partition = t.partition and o.incarnation = t.incarnation),
-- all streams in one pass: their segments lie side by side, and each page is read once
covered as (
    select c.stream_id, range_agg(c.offsets) as offsets from lockstep.coverage c
    where c.stream_id = any(array(select owner from shown)) and lower(c.offsets) < %(until)s
      and lower(c.offsets) >= coalesce((
          select min(f.first) from shown s cross join lateral (
              select lower(o.offsets) as first from lockstep.coverage o
              where o.stream_id = s.owner and lower(o.offsets) <= %(from)s order by lower(o.offsets) desc limit 1) f), 0)
    group by c.stream_id)
select h.stream_id, lower(h.offsets) as from_offset, upper(h.offsets) as until_offset
from (
    select s.stream_id, unnest(int8multirange(int8range(least(s.start, s.position), s.position) * int8range(%(from)s, %(until)s))
        - coalesce(range_agg(c.offsets), '{}')) as offsets
    from shown s left join covered c on c.stream_id = s.owner group by s.stream_id, s.start, s.position) h
order by h.stream_id, from_offset

-- name: claimed
-- What batches that are planned and not committed work on.
select k.stream_id, lower(k.offsets) as from_offset, upper(k.offsets) as until_offset, b.batch_id, b.lane
from lockstep.claim k join lockstep.batch b using (batch_id)
where k.stream_id = any(%(streams)s) and lower(k.offsets) < %(until)s and upper(k.offsets) > %(from)s and b.state = 'planned'
order by k.stream_id, lower(k.offsets)

-- name: decided
-- What somebody decided to skip or to accept as lost, exactly, however narrow.
select c.stream_id, lower(c.offsets) as from_offset, upper(c.offsets) as until_offset, c.kind
from lockstep.coverage c
where c.stream_id = any(%(streams)s) and c.kind <> 'batch' and lower(c.offsets) < %(until)s and upper(c.offsets) > %(from)s
order by c.stream_id, lower(c.offsets)

-- name: rejects_of_picture
-- How many rejects lie at each place.
select j.stream_id, (j."offset" - s.from_offset) / s.step as place, count(*) as rejects, min(j."offset") as first
from unnest(%(streams)s::int[], %(froms)s::bigint[], %(untils)s::bigint[], %(steps)s::bigint[])
    s (stream_id, from_offset, until_offset, step)
join lockstep.reject j on j.stream_id = s.stream_id and j."offset" >= s.from_offset and j."offset" < s.until_offset
group by 1, 2 order by 1, 2
