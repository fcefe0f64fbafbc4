-- name: unfinished
-- The batches of a pipeline that are under way.
select batch_id from lockstep.batch where pipeline = %(pipeline)s and state = 'planned' order by batch_id

-- name: as_written
-- A key as its column writes it; a uuid without its hyphens.
select case when %(is_uuid)s then replace((%(key)s::{type})::text, '-', '') else (%(key)s::{type})::text end as key

-- name: make_salt
-- The salt of a pipeline's digests, drawn once by the database.
insert into lockstep.erasure_salt (pipeline) values (%(pipeline)s) on conflict do nothing

-- name: earlier
-- An earlier erasure of the same key.
select e.erasure_id from lockstep.erasure e join lockstep.erasure_salt s using (pipeline)
where e.pipeline = %(pipeline)s and e.column_name = %(column)s and e.as_uuid = %(as_uuid)s
  and e.digest = lockstep.key_digest(s.salt, convert_to(%(key)s, 'UTF8')) order by 1 desc limit 1

-- name: insert_erasure
-- One key, as its digest; the token fences out every attempt that was opened before.
insert into lockstep.erasure (pipeline, column_name, as_uuid, digest)
select %(pipeline)s, %(column)s, %(as_uuid)s, lockstep.key_digest(s.salt, convert_to(%(key)s, 'UTF8'))
from lockstep.erasure_salt s where s.pipeline = %(pipeline)s returning erasure_id, digest

-- name: insert_bounds
-- Up to where records stay out: the logs' ends today, and what any stream has passed.
insert into lockstep.erasure_bound (erasure_id, topic_id, partition, until_offset)
select %(erasure_id)s, b.topic_id, b.partition, max(b.until_offset) from (
    select topic_id, partition, position as until_offset from lockstep.stream
    where pipeline = any(lockstep.line_of(%(pipeline)s))
    union all
    select v.topic_id, v.partition, v.until_offset
    from unnest(%(topic_ids)s::text[], %(partitions)s::int[], %(ends)s::bigint[]) as v (topic_id, partition, until_offset)) b
group by 2, 3

-- name: erase_rows
-- Rows that hold the key, of these batches where they are named, with what a digest loses by them.
with gone as (
    delete from {target} t using lockstep.stream s
    where s.stream_id = t._stream and s.pipeline = any(lockstep.line_of(%(pipeline)s)) and {holds} and {batches}
    returning t._batch, t._stream, t._offset, {row} as digest)
insert into lockstep.erased (erasure_id, relation, target, batch_id, stream_id, "offset", rows, digest)
select %(erasure_id)s, %(target)s, %(target)s, g._batch, g._stream, g._offset, count(*), sum(g.digest) from gone g group by 4, 5, 6

-- name: of_shape
-- Rows of the batches that were committed with these columns.
t._batch in (select c.batch_id from lockstep.content c where c.shape_id = {shape} and c.place = {place})

-- name: erase_contributions
-- What each segment has added to the key's totals.
with gone as (
    delete from lockstep.contribution c using lockstep.stream s
    where s.stream_id = c.stream_id and s.pipeline = any(lockstep.line_of(%(pipeline)s)) and c.target = %(target)s
      and case when %(as_uuid)s then replace(c.key ->> %(place)s, '-', '') else c.key ->> %(place)s end = %(key)s
    returning c.batch_id, c.stream_id, c."offset", c.records - c.folded as records)
insert into lockstep.erased (erasure_id, relation, target, batch_id, stream_id, "offset", rows)
select %(erasure_id)s, 'lockstep.contribution', %(target)s, g.batch_id, g.stream_id, g."offset", sum(g.records)
from gone g where g.records > 0 group by 4, 5, 6

-- name: erase_windows
-- The key's windows, with their revisions. What counts in them goes next.
delete from lockstep.window_state w where w.target = %(target)s
  and case when %(as_uuid)s then replace(w.key ->> %(place)s, '-', '') else w.key ->> %(place)s end = %(key)s

-- name: erase_late
-- The key's late rows.
with gone as (
    delete from lockstep.late l using lockstep.stream s
    where s.stream_id = l.stream_id and s.pipeline = any(lockstep.line_of(%(pipeline)s)) and l.target = %(target)s
      and case when %(as_uuid)s then replace(l.key ->> %(place)s, '-', '') else l.key ->> %(place)s end = %(key)s
    returning l.batch_id, l.stream_id, l."offset")
insert into lockstep.erased (erasure_id, relation, target, batch_id, stream_id, "offset", rows)
select %(erasure_id)s, 'lockstep.late', %(target)s, g.batch_id, g.stream_id, g."offset", count(*) from gone g group by 4, 5, 6

-- name: erase_tombstones
-- Deletions of the key that were remembered: the erasure keeps its records out from now on.
delete from lockstep.tombstone d using lockstep.stream s
where s.stream_id = d.stream_id and s.pipeline = any(lockstep.line_of(%(pipeline)s)) and d.target = %(target)s
  and case when %(as_uuid)s then replace(d.key ->> %(place)s, '-', '') else d.key ->> %(place)s end = %(key)s

-- name: erase_rejects
-- The bytes of rejects that hold the key.
select lockstep.erase_rejects(%(erasure_id)s, %(needles)s::bytea[]) as emptied

-- name: erase_said
-- Errors, verdicts and previews that quote the key.
select lockstep.erase_said(%(erasure_id)s, %(pattern)s) as replaced

-- name: erased_digest
-- What this erasure took out, as the decision is to say it.
select lockstep.erased_digest(%(erasure_id)s) as digest

-- name: counts
-- How much of what was taken out. Of a feed it is changes.
select relation, sum(rows)::bigint as rows from lockstep.erased where erasure_id = %(erasure_id)s group by 1
union all
select 'lockstep_feed.' || f.name, count(*) from lockstep.blank_change b join lockstep.change_set c using (change_set_id)
join lockstep.feed f using (target) where b.erasure_id = %(erasure_id)s group by 1 order by 1

-- name: erased_of_batch
-- How many rows and rejects of a batch were erased, by decision.
select lockstep.erasure_decision(x.erasure_id) as decision_id, sum(x.rows) filter (where x.relation <> 'lockstep.reject')::bigint as rows,
    sum(x.rows) filter (where x.relation = 'lockstep.reject')::bigint as rejects
from lockstep.erased x where x.batch_id = %(batch_id)s group by 1 order by 1

-- name: waiting
-- The first open stream that has not passed an erasure's bound: what lies between stays out of this log alone.
select s.topic, s.partition, s.position, max(b.until_offset) as until_offset
from lockstep.stream s join lockstep.erasure_bound b on b.topic_id = s.topic_id and b.partition = s.partition
join lockstep.erasure e using (erasure_id)
where s.pipeline = %(pipeline)s and s.retired_at is null and s.position < b.until_offset
  and e.pipeline = any(lockstep.line_of(%(pipeline)s))
group by s.stream_id order by s.topic, s.partition limit 1
