-- name: streams_of_batch
-- Which partition each of a batch's streams is.
select r.stream_id, s.partition from lockstep.batch_range r join lockstep.stream s using (stream_id)
where r.batch_id = %(batch_id)s

-- name: definitions_of_batch
-- The code that each definition which was tried for a batch came with.
select d.definition_hash, d.code_version from lockstep.definition d
where d.definition_hash in (select a.definition_hash from lockstep.attempt a where a.batch_id = %(batch_id)s)

-- name: request_of_batch
-- Who asked for a batch that is not live, and why.
select q.request_id, q.who, q.why, q.opened_at from lockstep.batch b join lockstep.request q using (request_id)
where b.batch_id = %(batch_id)s

-- name: rejects_of_batch
-- The first rejects of a batch, by where they stand; looked for in its ranges, for rejects are not kept by batch.
select s.topic, s.partition, j."offset", j.reason
from lockstep.batch_range r join lockstep.stream s using (stream_id)
join lockstep.reject j on j.stream_id = r.stream_id and j."offset" >= lower(r.offsets) and j."offset" < upper(r.offsets)
where r.batch_id = %(batch_id)s and j.batch_id = %(batch_id)s
order by s.topic, s.partition, j."offset" limit %(most)s
