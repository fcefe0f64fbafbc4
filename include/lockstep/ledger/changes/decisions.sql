-- name: batch_pipeline
-- Whose batch it is; that never changes, so it is asked before any lock.
select pipeline from lockstep.batch where batch_id = %(batch_id)s

-- name: set_paused
-- The switch that plan looks at under the same lock.
update lockstep.pipeline set paused = %(paused)s where name = %(pipeline)s and paused <> %(paused)s

-- name: claiming
-- The unfinished batches, of every lane, that work on these offsets of these streams.
select distinct batch_id from lockstep.claim
where stream_id = any(%(streams)s) and offsets && int8range(%(from_offset)s, %(until_offset)s) order by batch_id

-- name: streams_of_partitions
-- Every stream of these partitions, closed ones too: a replay may work on a stream that growth has closed.
select stream_id from lockstep.stream
where pipeline = %(pipeline)s and topic = %(topic)s and partition = any(%(partitions)s) order by stream_id

-- name: claimed_until
-- How far unfinished batches mean to read each stream of a pipeline.
select k.stream_id, max(upper(k.offsets)) as until_offset from lockstep.claim k join lockstep.stream s using (stream_id)
where s.pipeline = %(pipeline)s group by k.stream_id

-- name: lock_batches
-- The batches' row locks, in the one order; what they say then is what holds.
select batch_id, state, token from lockstep.batch where batch_id = any(%(batches)s) order by batch_id for no key update

-- name: abandon_batches
-- A batch ends without a commit; the new token fences out whoever still works on it.
update lockstep.batch set state = 'abandoned', closed_at = clock_timestamp(), token = nextval('lockstep.token_seq')
where batch_id = any(%(batches)s) and state = 'planned'

-- name: abandon_attempts
-- The attempts under way end with their batch.
update lockstep.attempt set state = 'abandoned', closed_at = clock_timestamp(), error = %(error)s
where batch_id = any(%(batches)s) and closed_at is null

-- name: release_abandoned
-- The offsets are free to be planned again.
delete from lockstep.claim where batch_id = any(%(batches)s)

-- name: lock_streams
-- The streams' row locks, in the one order.
select stream_id, position from lockstep.stream where stream_id = any(%(streams)s) order by stream_id for no key update

-- name: coverage_within
-- Who owns offsets of one stream already.
select kind, lower(offsets) as from_offset, upper(offsets) as until_offset, batch_id from lockstep.coverage
where int4range(stream_id, stream_id, '[]') && int4range(%(stream_id)s, %(stream_id)s, '[]')
  and offsets && int8range(%(from_offset)s, %(until_offset)s) order by lower(offsets)

-- name: insert_loss
-- The offsets are gone, and somebody has said so.
insert into lockstep.coverage (stream_id, offsets, kind)
values (%(stream_id)s, int8range(%(from_offset)s, %(until_offset)s), 'loss')

-- name: insert_skipped
-- The offsets are passed over, and can be filled.
insert into lockstep.coverage (stream_id, offsets, kind)
values (%(stream_id)s, int8range(%(from_offset)s, %(until_offset)s), 'skipped')

-- name: cut_skipped
-- Skipped stretches that touch these offsets make room; what lies outside is put back.
delete from lockstep.coverage
where int4range(stream_id, stream_id, '[]') && int4range(%(stream_id)s, %(stream_id)s, '[]')
  and offsets && int8range(%(from_offset)s, %(until_offset)s) and kind = 'skipped'
returning lower(offsets) as from_offset, upper(offsets) as until_offset

-- name: pass_over
-- Compare and set: the position moves over offsets that are covered now, and only from where it was.
update lockstep.stream set position = %(until_offset)s
where stream_id = %(stream_id)s and position = %(position)s and retired_at is null

-- name: insert_decision
-- Who decided what, and why.
insert into lockstep.decision (pipeline, kind, who, why, detail) values (%(pipeline)s, %(kind)s, %(who)s, %(why)s, %(detail)s)
returning decision_id

-- name: adoption
-- The decision by which a pipeline took over from another reader: its first one about streams, so there is one at most.
select decision_id, who, detail ->> 'digest' as digest from lockstep.decision
where pipeline = %(pipeline)s and kind = 'adopt'
