-- name: newest_committed
-- The newest committed batches of the live lane, the newest first.
select batch_id, planned_at, null as code_version from lockstep.batch
where pipeline = %(pipeline)s and lane = 'live' and state = 'committed' order by batch_id desc limit %(last)s

-- name: past_batches
-- These batches, the oldest first, each with the version of Lockstep that has recorded its definition.
select b.batch_id, b.planned_at, (
    select max(d.code_version) from lockstep.attempt a join lockstep.definition d using (definition_hash)
    where a.batch_id = b.batch_id and a.state = 'committed') as code_version
from lockstep.batch b where b.pipeline = %(pipeline)s and b.batch_id = any(%(batches)s::bigint[]) order by b.batch_id

-- name: ranges
-- What these batches have read, and of which logs.
select r.batch_id, r.stream_id, s.cluster_id, s.topic_id, s.topic, s.partition,
    lower(r.offsets) as from_offset, upper(r.offsets) as until_offset
from lockstep.batch_range r join lockstep.stream s using (stream_id)
where r.batch_id = any(%(batches)s::bigint[]) order by r.batch_id, s.topic, s.partition

-- name: number_next
-- A ledger that is thrown away gives its next batch the number and the time of a past one: a transform may use both.
alter table lockstep.batch alter column batch_id restart with {batch_id}, alter column planned_at set default {planned_at}

-- name: partitions
-- Which partition each stream is.
select stream_id, topic, partition from lockstep.stream

-- name: erasures_of_logs
-- The keys that were erased from these logs, by digest, of a pipeline and of those whose tables it was given.
select e.erasure_id, e.pipeline, encode(z.salt, 'hex') as salt, e.column_name, e.as_uuid, e.digest, b.topic_id, b.partition,
    b.until_offset
from lockstep.erasure e join lockstep.erasure_salt z using (pipeline) join lockstep.erasure_bound b using (erasure_id)
where e.pipeline = any(lockstep.line_of(%(pipeline)s)) and b.topic_id = any(%(topic_ids)s::text[])
order by e.erasure_id, b.topic_id, b.partition

-- name: leave_undecided
-- A ledger that is thrown away keeps erasures without their decisions.
alter table lockstep.erasure disable trigger erasure_is_decided

-- name: former_owners
-- The pipelines that erased a key.
insert into lockstep.pipeline (name)
select distinct e.pipeline from jsonb_to_recordset(%(erasures)s) e (pipeline text) on conflict do nothing

-- name: hand_over
-- Erasures of others hold for a pipeline that was given their table.
insert into lockstep.decision (pipeline, kind, who, why, detail)
select distinct e.pipeline, 'hand-over', 'canary', 'its erasures hold here', jsonb_build_object('to', %(pipeline)s::text)
from jsonb_to_recordset(%(erasures)s) e (pipeline text) where e.pipeline <> %(pipeline)s

-- name: salts
-- The salts of the digests.
insert into lockstep.erasure_salt (pipeline, salt)
select distinct e.pipeline, decode(e.salt, 'hex') from jsonb_to_recordset(%(erasures)s) e (pipeline text, salt text)

-- name: erasures
-- The erased keys, each as its digest.
insert into lockstep.erasure (erasure_id, pipeline, column_name, as_uuid, digest) overriding system value
select distinct e.erasure_id, e.pipeline, e.column_name, e.as_uuid, e.digest
from jsonb_to_recordset(%(erasures)s) e (erasure_id bigint, pipeline text, column_name text, as_uuid boolean, digest text)

-- name: erasure_bounds
-- Up to where their records stay out.
insert into lockstep.erasure_bound (erasure_id, topic_id, partition, until_offset)
select e.erasure_id, e.topic_id, e.partition, e.until_offset
from jsonb_to_recordset(%(erasures)s) e (erasure_id bigint, topic_id text, partition integer, until_offset bigint)
