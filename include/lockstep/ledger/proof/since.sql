-- name: commit_of_batch
-- When the first range of a batch was committed; no row: it is no batch of the pipeline that has committed.
select min(c.at) as at from lockstep.commit c join lockstep.batch b using (batch_id)
where b.pipeline = %(pipeline)s and c.batch_id = %(batch_id)s having count(*) > 0

-- name: batches_since
-- The batches that own offsets today and have committed since a time, and how many committed before it alone.
select coalesce(array_agg(o.batch_id order by o.batch_id) filter (where o.last >= %(moment)s), '{}') as batches,
    count(*) filter (where o.last < %(moment)s) as before
from (
    select g.batch_id, max(c.at) as last from lockstep.segment g join lockstep.stream s using (stream_id)
    join lockstep.commit c using (batch_id, stream_id) where s.pipeline = %(pipeline)s group by 1) o
