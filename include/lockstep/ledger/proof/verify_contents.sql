-- name: shapes
-- Every list of columns that batches were committed with into a target, and the target's place then.
select distinct h.shape_id, h.columns, c.place from lockstep.shape h join lockstep.content c using (shape_id)
where h.target = %(target)s order by h.shape_id, c.place

-- name: rows_changed
-- Segments whose rows in the target are not the committed ones. Only batches with these columns are looked at.
with its as (select distinct batch_id from lockstep.content where shape_id = %(shape_id)s and place = %(place)s),
found as (
    select t._batch as batch_id, t._stream as stream_id, count(*) as rows, sum({row}) as digest
    from {target} t join its on its.batch_id = t._batch group by 1, 2),
gone as (
    select x.batch_id, x.stream_id, sum(x.digest) as digest from lockstep.erased x where x.relation = %(target)s group by 1, 2)
select s.topic, s.partition, g.batch_id, coalesce(f.rows, 0) as rows
from lockstep.segment g join lockstep.stream s using (stream_id) join lockstep.content c using (batch_id, stream_id)
left join found f using (batch_id, stream_id) left join gone x using (batch_id, stream_id)
where s.pipeline = %(pipeline)s and c.shape_id = %(shape_id)s and c.place = %(place)s
  and c.target_digest <> coalesce(f.digest, 0) + coalesce(x.digest, 0)
  and not exists (
    select from lockstep.trimmed m where m.target = %(target)s and m.stream_id = g.stream_id and m.offsets && g.offsets)
order by g.batch_id, s.partition, s.stream_id

-- name: rows_changed_since
-- Segments of these batches whose rows in the target are not the committed ones. Only batches with these columns are looked at.
select s.topic, s.partition, g.batch_id, f.rows
from lockstep.segment g join lockstep.stream s using (stream_id) join lockstep.content c using (batch_id, stream_id)
cross join lateral (
    select count(*) as rows, sum({row}) as digest from {target} t
    where t._stream = g.stream_id and t._offset >= lower(g.offsets) and t._offset < upper(g.offsets) and t._batch = g.batch_id) f
left join (
    select x.batch_id, x.stream_id, sum(x.digest) as digest from lockstep.erased x where x.relation = %(target)s group by 1, 2) x
    on x.batch_id = g.batch_id and x.stream_id = g.stream_id
where s.pipeline = %(pipeline)s and c.shape_id = %(shape_id)s and c.place = %(place)s
  and g.batch_id = any(%(batches)s::bigint[]) and c.target_digest <> coalesce(f.digest, 0) + coalesce(x.digest, 0)
  and not exists (
    select from lockstep.trimmed m where m.target = %(target)s and m.stream_id = g.stream_id and m.offsets && g.offsets)
order by g.batch_id, s.partition, s.stream_id

-- name: rejects_changed
-- Segments whose rejects in the ledger are not the committed ones.
with found as (
    select t.batch_id, t.stream_id, count(*) as rows, sum({reject} + coalesce(t.removed_digest, 0)) as digest
    from lockstep.reject t join lockstep.stream s using (stream_id) where s.pipeline = %(pipeline)s group by 1, 2)
select s.topic, s.partition, g.batch_id, coalesce(f.rows, 0) as rows
from lockstep.segment g join lockstep.stream s using (stream_id)
join (select batch_id, stream_id, sum(rejects_digest) as digest from lockstep.content group by 1, 2) c using (batch_id, stream_id)
left join found f using (batch_id, stream_id)
where s.pipeline = %(pipeline)s and c.digest <> coalesce(f.digest, 0) order by g.batch_id, s.partition, s.stream_id

-- name: segments
-- How many segments have a digest, and how many batches were committed before the ledger kept digests.
select count(*) filter (where c.digested) as digested, count(distinct g.batch_id) filter (where not c.digested) as before
from lockstep.segment g join lockstep.stream s using (stream_id) cross join lateral (
    select exists (
        select from lockstep.content c where c.batch_id = g.batch_id and c.stream_id = g.stream_id) as digested) c
where s.pipeline = %(pipeline)s

-- name: segments_of_shape
-- How many segments were committed with these columns.
select count(*) as segments from lockstep.segment g join lockstep.content c using (batch_id, stream_id)
join lockstep.stream s using (stream_id)
where s.pipeline = %(pipeline)s and c.shape_id = %(shape_id)s and c.place = %(place)s
  and (%(batches)s::bigint[] is null or g.batch_id = any(%(batches)s::bigint[]))
  and not exists (
    select from lockstep.trimmed m where m.target = %(target)s and m.stream_id = g.stream_id and m.offsets && g.offsets)
