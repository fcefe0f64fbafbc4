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

-- name: reject_reasons_of_batch
-- Why records of a batch were refused, the most frequent reason first, with the first places; looked for in its ranges,
-- for rejects are not kept by batch. An expectation's are one, whatever it has seen.
select reason, count(*) as count, (array_agg(topic order by topic, partition, "offset"))[:%(most)s] as topics,
    (array_agg(partition order by topic, partition, "offset"))[:%(most)s] as partitions,
    (array_agg("offset" order by topic, partition, "offset"))[:%(most)s] as offsets
from (
    select s.topic, s.partition, j."offset", regexp_replace(j.reason, '^(expectation [a-z0-9_]+\([^)]*\)): .*$', '\1') as reason
    from lockstep.batch_range r join lockstep.stream s using (stream_id)
    join lockstep.reject j on j.stream_id = r.stream_id and j."offset" >= lower(r.offsets) and j."offset" < upper(r.offsets)
    where r.batch_id = %(batch_id)s and j.batch_id = %(batch_id)s) rejected
group by reason order by count(*) desc, reason

-- name: rejected_ranges_of_batch
-- The batch's segments of today's logs that hold rejects: what a redrive of it runs again.
select s.topic, s.partition, min(lower(c.offsets)) as from_offset, max(upper(c.offsets)) as until_offset
from lockstep.coverage c join lockstep.stream s using (stream_id)
join lockstep.stream o on o.pipeline = s.pipeline and o.topic = s.topic and o.partition = s.partition
    and o.incarnation = s.incarnation and o.retired_at is null
where c.batch_id = %(batch_id)s and c.kind = 'batch' and exists (
    select from lockstep.reject j where j.stream_id = c.stream_id and j.batch_id = c.batch_id
    and j."offset" >= lower(c.offsets) and j."offset" < upper(c.offsets))
group by s.topic, s.partition order by s.topic, s.partition
