-- name: insert_request_call
-- This run has asked for this request, by opening it or by finding it open.
insert into lockstep.request_call (pipeline, key, request_id) values (%(pipeline)s, %(key)s, %(request_id)s)
on conflict do nothing

-- name: requests_of_call
-- What a run has asked for, the oldest first.
select r.request_id from lockstep.request_call k join lockstep.request r using (request_id)
where k.pipeline = %(pipeline)s and k.key = %(key)s and r.preview = %(preview)s order by r.request_id

-- name: has_asked_before
-- Whether this key has stood for a request that was opened before this moment.
select exists (
    select 1 from lockstep.request_call k join lockstep.request r using (request_id)
    where k.key = %(key)s and k.pipeline = %(pipeline)s and r.opened_at < %(moment)s) as has_asked

-- name: committed_by_requests
-- The batches that have committed for these requests, and by which attempt.
select b.batch_id, max(m.token) as token from lockstep.batch b join lockstep.commit m using (batch_id)
where b.request_id = any(%(requests)s::bigint[]) and b.state = 'committed' group by b.batch_id order by b.batch_id

-- name: insert_rehearsal
-- The difference that a preview has found, for whoever is to approve it.
insert into lockstep.rehearsal (request_id, content_hash, difference) values (%(request_id)s, %(content_hash)s, %(difference)s)

-- name: rehearsal
-- What was found, and under which code.
select content_hash, difference, at from lockstep.rehearsal where request_id = %(request_id)s

-- name: committed_since
-- Batches that own offsets of a request's windows and have committed after it was opened.
select distinct m.batch_id from lockstep.request r join lockstep.request_window w using (request_id)
join lockstep.coverage c
  on int4range(c.stream_id, c.stream_id, '[]') && int4range(w.stream_id, w.stream_id, '[]') and c.offsets && w.offsets
join lockstep.commit m on m.batch_id = c.batch_id and m.stream_id = c.stream_id
where r.request_id = %(request_id)s and m.token > r.token order by m.batch_id

-- name: decided_by_run
-- Whether a run has taken this decision already, about these facts.
select exists (
    select 1 from lockstep.decision
    where pipeline = %(pipeline)s and kind = %(kind)s and detail @> %(about)s and detail ->> 'run' = %(run)s) as decided

-- name: requests_of_run
-- What a DAG run has asked for, the oldest first. A run that was cleared, or made anew, has asked under another key each time.
select distinct r.request_id, r.lane, r.preview, r.closed_at is not null as closed, r.opened_at, r.who, r.why
from lockstep.request_call k join lockstep.request r using (request_id)
where k.pipeline = %(pipeline)s and (k.key = %(run)s or k.key ^@ any (array[%(run)s || ' cleared ', %(run)s || ' begun ']))
order by r.request_id

-- name: decisions_of_run
-- What was decided by a DAG run, or about it, the oldest first.
select kind, who, why, at from lockstep.decision
where pipeline = %(pipeline)s
  and (detail ->> 'run' = %(run)s or detail ->> 'run' ^@ any (array[%(run)s || ' cleared ', %(run)s || ' begun ']))
order by decision_id
