-- name: add_held
-- What a commit brings and takes out, by the batches whose rows they are.
insert into lockstep.lake_held as h (target, batch_id, stream_id, rows, digest)
select %(target)s, c.batch_id, c.stream_id, c.rows, c.digest
from jsonb_to_recordset(%(changes)s) as c (batch_id bigint, stream_id int, rows bigint, digest numeric)
on conflict (target, batch_id, stream_id) do update set rows = h.rows + excluded.rows, digest = h.digest + excluded.digest

-- name: forget_held
-- A segment that is replaced has no rows any more, whatever others have done to them. Neither has one whose rows all gave way.
delete from lockstep.lake_held h where h.target = %(target)s and (h.rows = 0 and h.digest = 0 or exists (
    select from lockstep.claim k where k.batch_id = %(batch_id)s and k.expects = 'batch'
        and k.expects_batch = h.batch_id and k.stream_id = h.stream_id))

-- name: held
-- What a keyed table must hold of each segment. Not what a pipeline that has ended left in a table before this one.
select h.batch_id, h.stream_id, h.rows, h.digest from lockstep.lake_held h
where h.target = %(target)s and not exists (
    select from lockstep.lake_commit m join lockstep.batch b using (batch_id) join lockstep.pipeline w on w.name = b.pipeline
    where m.batch_id = h.batch_id and concat_ws('.', m.catalog, m.namespace, m.name) = h.target
      and m.table_uuid <> %(uuid)s::uuid and w.forgotten_by is not null)

-- name: owners
-- Which of these batches own offsets of these streams today: a replay of one writes its rows anew.
select distinct g.batch_id, g.stream_id from lockstep.segment g
where g.batch_id = any(%(batches)s::bigint[]) and g.stream_id = any(%(streams)s::int[])

-- name: named_streams
-- The topic and partition of streams.
select stream_id, topic, partition from lockstep.stream where stream_id = any(%(streams)s)
