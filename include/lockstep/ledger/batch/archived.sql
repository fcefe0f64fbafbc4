-- name: archived_stretches
-- Per partition of today's logs, the offsets that files hold, the lowest first.
select s.topic, s.partition, lower(h.held) as from_offset, upper(h.held) as until_offset
from (select distinct on (o.topic, o.partition) o.topic, o.partition, o.stream_id
    from unnest(%(topics)s::text[], %(topic_ids)s::text[]) as t (topic, topic_id)
    join lockstep.stream o on o.topic = t.topic and o.topic_id = t.topic_id
    where o.pipeline = %(pipeline)s and o.cluster_id = %(cluster_id)s
    order by o.topic, o.partition, o.incarnation desc, o.stream_id) s
cross join lateral unnest(lockstep.archive_of(s.stream_id)) as h (held)
order by s.topic, s.partition, h.held

-- name: files_of
-- The files that hold offsets of these stretches, in order, each for the stream that asks.
select w.stream_id, s.topic, s.partition, lower(a.offsets) as from_offset, upper(a.offsets) as until_offset, a.path,
    a.records, a.digest_sum, a.digest_squares, a.sha256
from unnest(%(streams)s::int[], %(froms)s::bigint[], %(untils)s::bigint[]) as w (stream_id, from_offset, until_offset)
join lockstep.stream s using (stream_id)
join lockstep.archived a on int4range(a.stream_id, a.stream_id, '[]')
        && int4range(lockstep.opened_log(w.stream_id), lockstep.opened_log(w.stream_id), '[]')
    and a.offsets && int8range(w.from_offset, w.until_offset)
where not exists (select from lockstep.archive_drop d where d.archived_id = a.archived_id)
order by s.topic, s.partition, a.offsets

-- name: first_files_at
-- Per partition of today's logs, the first file that begins below an offset and holds a record at or past a moment.
select f.topic, f.partition, lower(f.offsets) as from_offset, upper(f.offsets) as until_offset, f.path,
    f.records, f.digest_sum, f.digest_squares, f.sha256
from (select distinct on (s.topic, s.partition) s.topic, s.partition, a.*
    from unnest(%(topics)s::text[], %(topic_ids)s::text[], %(partitions)s::int[], %(belows)s::bigint[])
        as b (topic, topic_id, partition, below)
    join lockstep.stream s on s.topic = b.topic and s.topic_id = b.topic_id and s.partition = b.partition
    join lockstep.archived a on a.stream_id = s.stream_id and lower(a.offsets) < b.below and a.newest >= %(moment)s
    where s.pipeline = %(pipeline)s and s.cluster_id = %(cluster_id)s and not lockstep.is_replaced(s.stream_id)
      and not exists (select from lockstep.archive_drop d where d.archived_id = a.archived_id)
    order by s.topic, s.partition, a.offsets) f
order by f.topic, f.partition

-- name: every_file
-- All files of a pipeline that count, of whatever log, in order.
select s.topic, s.partition, lower(a.offsets) as from_offset, upper(a.offsets) as until_offset, a.path,
    a.records, a.digest_sum, a.digest_squares, a.sha256
from lockstep.archived a join lockstep.stream s using (stream_id)
where s.pipeline = %(pipeline)s and not exists (select from lockstep.archive_drop d where d.archived_id = a.archived_id)
order by s.topic, s.partition, a.stream_id, a.offsets

-- name: logs_to_archive
-- The streams that opened today's log of a topic, what of them was ever archived, and below which offset nothing more may be.
select s.stream_id, s.partition, greatest(lockstep.read_before(s.stream_id), (
        select max(o.upkept_below) from lockstep.stream o where lockstep.opened_log(o.stream_id) = s.stream_id)) as least,
    array(select lower(a.offsets) from lockstep.archived a where a.stream_id = s.stream_id order by a.offsets) as froms,
    array(select upper(a.offsets) from lockstep.archived a where a.stream_id = s.stream_id order by a.offsets) as untils
from lockstep.stream s
where s.pipeline = %(pipeline)s and s.cluster_id = %(cluster_id)s and s.topic_id = %(topic_id)s and s.topic = %(topic)s
  and lockstep.opened_log(s.stream_id) = s.stream_id and not lockstep.is_replaced(s.stream_id)
order by s.partition

-- name: insert_archived
-- The file counts from here on.
insert into lockstep.archived (stream_id, offsets, path, records, bytes, digest_sum, digest_squares, sha256, newest, log_start)
values (%(stream_id)s, int8range(%(from_offset)s, %(until_offset)s), %(path)s, %(records)s, %(bytes)s, %(sum)s, %(squares)s,
    %(sha256)s, %(newest)s, %(log_start)s)

-- name: droppable
-- Files whose newest record is older than a moment, and what keeps one from being dropped.
select a.archived_id, s.topic, s.partition, lower(a.offsets) as from_offset, upper(a.offsets) as until_offset, a.path,
    exists (select from lockstep.stream o where lockstep.opened_log(o.stream_id) = a.stream_id
        and o.retired_at is null and o.position < upper(a.offsets)) as is_unread,
    exists (select from lockstep.stream o join lockstep.claim k on k.stream_id = o.stream_id
        where lockstep.opened_log(o.stream_id) = a.stream_id and k.offsets && a.offsets) as is_claimed
from lockstep.archived a join lockstep.stream s using (stream_id)
where s.pipeline = %(pipeline)s and coalesce(a.newest, a.at) < %(before)s
  and not exists (select from lockstep.archive_drop d where d.archived_id = a.archived_id)
order by s.topic, s.partition, a.stream_id, a.offsets

-- name: dropped_paths
-- The paths of all files of a pipeline that were dropped by a decision.
select a.path from lockstep.archive_drop d join lockstep.archived a using (archived_id)
join lockstep.stream s using (stream_id) where s.pipeline = %(pipeline)s order by a.path

-- name: insert_drops
-- They are read no more.
insert into lockstep.archive_drop (archived_id, decision_id)
select f.archived_id, %(decision_id)s from unnest(%(files)s::bigint[]) as f (archived_id)

-- name: note_upkept
-- Upkeep lets go of what lies below these log starts, so nothing below them is archived later.
update lockstep.stream s set upkept_below = b.log_start
from unnest(%(partitions)s::int[], %(log_starts)s::bigint[]) as b (partition, log_start)
where s.pipeline = %(pipeline)s and s.cluster_id = %(cluster_id)s and s.topic_id = %(topic_id)s
  and s.partition = b.partition and s.upkept_below < b.log_start and s.retired_at is null

-- name: archive_facts
-- What the archive holds of each partition, and how much of it.
select s.topic, s.partition, count(*)::bigint as files, sum(a.records)::bigint as records, sum(a.bytes)::bigint as bytes,
    min(lower(a.offsets)) as from_offset, max(upper(a.offsets)) as until_offset
from lockstep.archived a join lockstep.stream s using (stream_id)
where s.pipeline = %(pipeline)s and not lockstep.is_replaced(s.stream_id)
  and not exists (select from lockstep.archive_drop d where d.archived_id = a.archived_id)
group by s.topic, s.partition order by s.topic, s.partition
