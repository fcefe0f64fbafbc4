-- name: clock
-- The clock that the ledger's times come from.
select clock_timestamp() as now

-- name: last_hour
-- The newest hour that is complete.
select until from lockstep.complete_hour where pipeline = %(pipeline)s order by until desc limit 1

-- name: begun
-- When a pipeline's streams were opened, and the time that is named as its start, where they began there.
select min(s.opened_at) as opened_at, min(b.at) as starts_at
from lockstep.stream s
left join lockstep.boundary b on b.stream_id = s.stream_id and b.at = %(start)s and b."offset" = s.start_offset
where s.pipeline = %(pipeline)s

-- name: reached
-- The streams that an hour may have a part of, and where the next one begins in each; None before the first hour.
select s.stream_id, s.topic, s.partition, s.cluster_id, s.topic_id, s.start_offset, s.position,
    s.retired_at is not null as ends, gone.is_gone,
    s.incarnation > 0 and not exists (
        select 1 from lockstep.stream o where o.pipeline = s.pipeline and o.topic = s.topic and o.partition = s.partition
            and o.incarnation = s.incarnation and o.stream_id < s.stream_id) as renewed,
    coalesce(last.until_offset, case when first.at is not null then s.start_offset end) as "offset"
from lockstep.stream s
left join lateral (
    select h.at from lockstep.complete_hour h where h.pipeline = s.pipeline order by h.until limit 1) first on true
left join lateral (
    select o.until_offset from lockstep.hour_offsets o where o.stream_id = s.stream_id order by o.until desc limit 1) last on true
cross join lateral (
    select s.retired_at is not null and not exists (
        select 1 from lockstep.stream o where o.pipeline = s.pipeline and o.topic = s.topic and o.partition = s.partition
            and o.incarnation = s.incarnation and o.retired_at is null) as is_gone) gone
where s.pipeline = %(pipeline)s and (
    s.retired_at is null
    or last.until_offset < s.position
    or (last.until_offset is null and s.opened_at > first.at and s.start_offset < s.position)
    or (first.at is null and not gone.is_gone))
order by s.stream_id

-- name: boundaries
-- The offsets that a time was resolved to before, by partition; of several streams of one log the oldest has the word.
select distinct on (s.partition) s.partition, d."offset"
from lockstep.boundary d join lockstep.stream s using (stream_id)
join lockstep.stream o on o.pipeline = s.pipeline and o.topic = s.topic and o.partition = s.partition
    and o.incarnation = s.incarnation and o.retired_at is null
where s.pipeline = %(pipeline)s and d.at = %(at)s order by s.partition, d.stream_id

-- name: keep_boundaries
-- A time is resolved for all partitions of the log that was asked, unless it is another log by now.
insert into lockstep.boundary (stream_id, at, "offset")
select s.stream_id, %(at)s, b."offset"
from unnest(%(partitions)s::int[], %(offsets)s::bigint[]) as b (partition, "offset")
join lockstep.stream s on s.partition = b.partition
where s.pipeline = %(pipeline)s and s.retired_at is null and s.cluster_id = %(cluster_id)s and s.topic_id = %(topic_id)s
on conflict do nothing

-- name: covered
-- What covers stretches of streams, with what lies right below each; of a loss, when it was accepted.
select w.stream_id, c.from_offset, c.until_offset, c.kind, c.batch_id,
    case when c.kind = 'loss' then (
        select max(d.at) from lockstep.decision d
        where d.pipeline = s.pipeline and d.kind = 'accept-loss' and (d.detail ->> 'stream_id')::int = w.stream_id
          and (d.detail ->> 'from_offset')::bigint < c.until_offset and (d.detail ->> 'until_offset')::bigint > c.from_offset)
    end as accepted_at
from unnest(%(streams)s::int[], %(froms)s::bigint[], %(untils)s::bigint[]) as w (stream_id, from_offset, until_offset)
join lockstep.stream s using (stream_id)
cross join lateral (
    select lower(c.offsets) as from_offset, upper(c.offsets) as until_offset, c.kind, c.batch_id from lockstep.coverage c
    where c.stream_id = w.stream_id and lower(c.offsets) < w.until_offset and lower(c.offsets) >= coalesce((
        select lower(p.offsets) from lockstep.coverage p
        where p.stream_id = w.stream_id and lower(p.offsets) < w.from_offset order by lower(p.offsets) desc limit 1), 0)) c
order by w.stream_id, c.from_offset

-- name: insert_hour
-- One more hour is complete.
insert into lockstep.complete_hour (pipeline, until, proof) values (%(pipeline)s, %(until)s, %(proof)s)

-- name: insert_offsets
-- The offsets that it is made of.
insert into lockstep.hour_offsets (pipeline, until, stream_id, from_offset, until_offset)
select %(pipeline)s, %(until)s, o.stream_id, o.from_offset, o.until_offset
from unnest(%(streams)s::int[], %(froms)s::bigint[], %(untils)s::bigint[]) as o (stream_id, from_offset, until_offset)
order by o.stream_id

-- name: hours
-- The newest complete hours, the oldest of them first.
select until, proof, at from (
    select h.until, h.proof, h.at from lockstep.complete_hour h
    where h.pipeline = %(pipeline)s order by h.until desc limit %(last)s) newest order by until

-- name: hour
-- One complete hour.
select until, proof, at from lockstep.complete_hour where pipeline = %(pipeline)s and until = %(until)s

-- name: offsets_of_hours
-- What hours are made of, without the streams that nothing came in.
select o.until, s.topic, s.partition, o.stream_id, o.from_offset, o.until_offset
from lockstep.hour_offsets o join lockstep.stream s using (stream_id)
where o.pipeline = %(pipeline)s and o.until = any(%(hours)s::timestamptz[]) and o.from_offset < o.until_offset
order by o.until, s.topic, s.partition, o.stream_id

-- name: hours_to_tell
-- The oldest hours that nobody has told, and those that this very caller has told before.
select h.until from lockstep.complete_hour h
where h.pipeline = %(pipeline)s and not exists (
    select 1 from lockstep.hour_told t
    where t.pipeline = h.pipeline and t.until = h.until and t.told_by <> %(told_by)s)
order by h.until limit %(most)s

-- name: insert_told
-- Somebody is told.
insert into lockstep.hour_told (pipeline, until, told_by) values (%(pipeline)s, %(until)s, %(told_by)s) on conflict do nothing
