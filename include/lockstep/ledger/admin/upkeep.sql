-- name: crowded
-- Streams that so many batches cover that a merge may be worth its while.
select s.stream_id, s.pipeline, s.topic, s.cluster_id, s.topic_id, s.partition from lockstep.stream s
where %(least)s <= (select count(*) from (
    select 1 from lockstep.coverage c where c.stream_id = s.stream_id and c.kind = 'batch' limit %(least)s) few)
order by s.topic, s.pipeline, s.stream_id

-- name: below_log_start
-- Those of them that so many batches cover below their log's start.
select b.stream_id from unnest(%(streams)s::int[], %(log_starts)s::bigint[]) as b (stream_id, log_start)
where %(least)s <= (select count(*) from (
    select 1 from lockstep.coverage c
    where c.stream_id = b.stream_id and c.kind = 'batch' and lower(c.offsets) < b.log_start
    order by lower(c.offsets) limit %(least)s) few)
order by b.stream_id

-- name: merge
-- Neighbours wholly below log start become one row, unless somebody claims them or an open request is about them.
with near as (
    select c.offsets, c.batch_id, upper(c.offsets) <= s.start_offset as before_start, u.max_timestamp is not null as delivered
    from lockstep.coverage c join lockstep.stream s using (stream_id)
    join lockstep.commit m using (batch_id, stream_id) join lockstep.result u using (batch_id, token, stream_id)
    where c.stream_id = %(stream_id)s and c.kind = 'batch' and lower(c.offsets) >= %(begin)s
      and lower(c.offsets) < %(log_start)s and upper(c.offsets) <= %(log_start)s
      and not exists (select 1 from lockstep.claim k where k.stream_id = c.stream_id and k.offsets && c.offsets)
      and not c.offsets && (select lockstep.archive_of(%(stream_id)s))  -- it can be replayed
      and not exists (
        select 1 from lockstep.request r join lockstep.request_window w using (request_id)
        where r.closed_at is null and w.stream_id = c.stream_id and w.offsets && c.offsets)
    order by lower(c.offsets) limit %(most)s),
island as (select before_start, unnest(range_agg(offsets)) as offsets from near group by before_start),
-- named after the last of them that delivered anything: its newest timestamp is the stretch's
merged as (
    select i.offsets, (array_agg(n.batch_id order by n.delivered desc, n.offsets desc))[1] as batch_id
    from island i join near n on n.offsets <@ i.offsets group by i.offsets having count(*) > 1),
gone as (
    delete from lockstep.coverage c using merged m
    where c.stream_id = %(stream_id)s and c.kind = 'batch' and c.offsets <@ m.offsets
      and lower(c.offsets) >= lower(m.offsets) and lower(c.offsets) < upper(m.offsets)
    returning c.offsets),
-- the count is taken when all of them are gone, and only then no_offset_twice lets the new row in
made as (
    insert into lockstep.coverage (stream_id, offsets, kind, batch_id)
    select %(stream_id)s, m.offsets, 'batch', m.batch_id from merged m cross join (select count(*) from gone) g
    returning 1)
select (select count(*) from near) as seen, (select count(*) from gone) as gone, (select count(*) from made) as made,
    (select max(lower(offsets)) from island) as last_begin

-- name: rejecting
-- The pipelines with rejects that still have their bytes.
select p.name from lockstep.pipeline p where exists (
    select from lockstep.reject j join lockstep.stream s using (stream_id) where s.pipeline = p.name and j.emptied_at is null)
order by p.name

-- name: empty_old_rejects
-- Rejects older than the pipeline keeps them lose their bytes; offset, reason and digest stay.
select lockstep.empty_old_rejects(%(pipeline)s, %(most)s) as emptied

-- name: buried
-- The streams with a deletion that is still remembered.
select s.stream_id, s.pipeline, s.topic, s.partition from lockstep.stream s
where exists (select 1 from lockstep.tombstone d where d.stream_id = s.stream_id) order by s.topic, s.pipeline, s.stream_id

-- name: streams_of_pipeline
-- Every stream of a pipeline, retired ones too, with its log.
select stream_id, topic, partition, cluster_id, topic_id, epoch, position, retired_at is not null as retired
from lockstep.stream where pipeline = %(pipeline)s order by epoch, stream_id

-- name: forget_deletions
-- Deletions below an offset are forgotten, the oldest first, unless an unfinished batch reads older records. A source may
-- send older changes again at any time, so those that its log orders stay.
delete from lockstep.tombstone d using (
    select o.target, o.key from lockstep.tombstone o
    where o.stream_id = %(stream_id)s and o."offset" < %(below)s and o."order" is null
      and not exists (
        select 1 from lockstep.claim k join lockstep.stream s using (stream_id)
        where s.pipeline = %(pipeline)s and s.topic = %(topic)s and (s.epoch < %(epoch)s
            or (k.stream_id = %(stream_id)s and lower(k.offsets) < o."offset")))
      -- the archive holds older records, which a replay would bring back
      and not exists (
        select from lockstep.stream s join lockstep.archived a on a.stream_id = lockstep.opened_log(s.stream_id)
        where s.pipeline = %(pipeline)s and s.topic = %(topic)s and not exists (
            select from lockstep.archive_drop d where d.archived_id = a.archived_id)
          and ((s.stream_id = %(stream_id)s and lower(a.offsets) <= o."offset")
            or (s.epoch < %(epoch)s and lower(a.offsets) < s.position)))
    order by o."offset" limit %(most)s) old
where d.target = old.target and d.key = old.key and d.stream_id = %(stream_id)s and d."offset" < %(below)s
