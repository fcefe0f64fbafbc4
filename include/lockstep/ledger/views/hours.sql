-- name: clock
-- The clock that the ledger's times come from.
select clock_timestamp() as now

-- name: last_hour
-- The newest hour that is complete.
select until from lockstep.complete_hour where pipeline = %(pipeline)s order by until desc limit 1

-- name: first_hour
-- The oldest hour that was found complete.
select min(until) as until from lockstep.complete_hour where pipeline = %(pipeline)s

-- name: has_retired_streams
-- Whether a pipeline has read a log, or a partition, that it reads no more.
select exists (select from lockstep.stream where pipeline = %(pipeline)s and retired_at is not null) as has_retired

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
    lockstep.read_before(s.stream_id) > 0 and not exists (
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
select distinct on (s.topic, s.partition) s.topic, s.partition, d."offset"
from lockstep.boundary d join lockstep.stream s using (stream_id)
join lockstep.stream o on o.pipeline = s.pipeline and o.topic = s.topic and o.partition = s.partition
    and o.incarnation = s.incarnation and o.retired_at is null
where s.pipeline = %(pipeline)s and d.at = %(at)s order by s.topic, s.partition, d.stream_id

-- name: keep_boundaries
-- A time is resolved for all partitions of the logs that were asked, unless one is another log by now.
insert into lockstep.boundary (stream_id, at, "offset")
select s.stream_id, %(at)s, b."offset"
from unnest(%(topic_ids)s::text[], %(partitions)s::int[], %(offsets)s::bigint[]) as b (topic_id, partition, "offset")
join lockstep.stream s on s.topic_id = b.topic_id and s.partition = b.partition
where s.pipeline = %(pipeline)s and s.retired_at is null and s.cluster_id = %(cluster_id)s
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
-- The newest complete hours, the oldest of them first: how often each was told, and whether it has changed since.
select h.until, h.proof, coalesce(t.revision, 0) as revision, c.revision is not null as changed from (
    select n.pipeline, n.until, n.proof from lockstep.complete_hour n
    where n.pipeline = %(pipeline)s order by n.until desc limit %(last)s) h
left join lateral (
    select o.revision from lockstep.hour_told o
    where o.pipeline = h.pipeline and o.until = h.until order by o.revision desc limit 1) t on true
left join lockstep.hour_changed c on c.pipeline = h.pipeline and c.until = h.until and c.revision = t.revision
order by h.until

-- name: hour
-- One complete hour: how often it was told, and whether it has changed since.
select h.until, h.proof, coalesce(t.revision, 0) as revision, c.revision is not null as changed
from lockstep.complete_hour h
left join lateral (
    select o.revision from lockstep.hour_told o
    where o.pipeline = h.pipeline and o.until = h.until order by o.revision desc limit 1) t on true
left join lockstep.hour_changed c on c.pipeline = h.pipeline and c.until = h.until and c.revision = t.revision
where h.pipeline = %(pipeline)s and h.until = %(until)s

-- name: offsets_of_hours
-- What hours are made of, without the streams that nothing came in.
select o.until, s.topic, s.partition, o.stream_id, o.from_offset, o.until_offset
from lockstep.hour_offsets o join lockstep.stream s using (stream_id)
where o.pipeline = %(pipeline)s and o.until = any(%(hours)s::timestamptz[]) and o.from_offset < o.until_offset
order by o.until, s.topic, s.partition, o.stream_id

-- name: hours_to_tell
-- The hours that nobody has told, or that this very caller has told last; then those that have changed since they were told.
select until from (
    select h.until, false as is_changed from lockstep.complete_hour h
    where h.pipeline = %(pipeline)s and not exists (
        select 1 from lockstep.hour_told t where t.pipeline = h.pipeline and t.until = h.until)
    union all
    select t.until, c.revision is not null from lockstep.hour_told t
    left join lockstep.hour_changed c on c.pipeline = t.pipeline and c.until = t.until and c.revision = t.revision
    where t.pipeline = %(pipeline)s and (t.told_by = %(told_by)s or c.revision is not null) and not exists (
        select 1 from lockstep.hour_told n
        where n.pipeline = t.pipeline and n.until = t.until and n.revision = t.revision + 1)) due
order by is_changed, until limit %(most)s

-- name: insert_told
-- An hour is told once, and once more when it has changed since.
insert into lockstep.hour_told (pipeline, until, revision, told_by)
select h.pipeline, h.until, coalesce(t.revision, 0) + 1, %(told_by)s from lockstep.complete_hour h
left join lateral (
    select o.revision from lockstep.hour_told o
    where o.pipeline = h.pipeline and o.until = h.until order by o.revision desc limit 1) t on true
where h.pipeline = %(pipeline)s and h.until = %(until)s and (t.revision is null or exists (
    select 1 from lockstep.hour_changed c
    where c.pipeline = h.pipeline and c.until = h.until and c.revision = t.revision))
on conflict do nothing

-- name: newest_telling
-- Who has told an hour last, and how often it was told.
select revision, told_by from lockstep.hour_told
where pipeline = %(pipeline)s and until = %(until)s order by revision desc limit 1

-- name: owners
-- The batches that own an hour's offsets by now.
select distinct c.batch_id from lockstep.hour_offsets o
cross join lateral (
    select c.batch_id from lockstep.coverage c
    where c.stream_id = o.stream_id and c.kind = 'batch' and lower(c.offsets) < o.until_offset
      and upper(c.offsets) > o.from_offset and lower(c.offsets) >= coalesce((
        select lower(p.offsets) from lockstep.coverage p
        where p.stream_id = o.stream_id and lower(p.offsets) <= o.from_offset order by lower(p.offsets) desc limit 1), 0)) c
where o.pipeline = %(pipeline)s and o.until = %(until)s and o.from_offset < o.until_offset order by 1

-- name: told_again
-- The newest hours that changed after they were told: how often each was told, and whether it is to be told once more.
select distinct on (c.until) c.until, c.revision + (t.revision is not null)::int as revision, t.revision is null as changed
from lockstep.hour_changed c
left join lockstep.hour_told t on t.pipeline = c.pipeline and t.until = c.until and t.revision = c.revision + 1
where c.pipeline = %(pipeline)s order by c.until desc, c.revision desc limit %(most)s
