-- name: lock_batch
-- The row lock under which an attempt is opened, validated, committed or resolved.
select batch_id, pipeline, lane, state, token, nonce::text, owner, planned_at, lease_until > clock_timestamp() as lease_is_live,
    (select max(version) from lockstep.migration) as ledger_version
from lockstep.batch where batch_id = %(batch_id)s for no key update

-- name: newest_attempt
-- The attempt whose token is the batch's, whose it is, and whether somebody holds it.
select a.token, a.nonce::text, a.state, a.error, a.owner, a.dag_id, a.dag_run_id, a.try_number,
    a.closed_at is null and a.lease_until > clock_timestamp() as lease_is_live
from lockstep.attempt a join lockstep.batch b using (batch_id, token) where b.batch_id = %(batch_id)s

-- name: opened
-- The facts that an attempt opened with, whether or not it is still its batch's newest.
select unit, log_starts from lockstep.attempt where batch_id = %(batch_id)s and token = %(token)s and nonce is not distinct from %(nonce)s::uuid

-- name: lane_of
-- Why a batch exists.
select lane from lockstep.batch where batch_id = %(batch_id)s

-- name: draw_token
-- A token that no attempt of this timeline has had: a sequence goes back with its ledger, and in no other way.
select nextval('lockstep.token_seq') as token

-- name: fence_batch
-- From here on only this attempt can commit, and its lease takes the place of the planner's.
update lockstep.batch set token = %(token)s, nonce = %(nonce)s::uuid, owner = %(owner)s, lease_until = clock_timestamp() where batch_id = %(batch_id)s and state = 'planned' and token < %(token)s

-- name: supersede_older
-- The attempts that the new one fences out are closed, so that history says so.
update lockstep.attempt set state = 'superseded', closed_at = clock_timestamp(), error = %(error)s
where batch_id = %(batch_id)s and token < %(token)s and closed_at is null

-- name: insert_definition
-- The code and suite that attempts run with, once per content.
insert into lockstep.definition (definition_hash, pipeline, document, code_version)
values (%(definition_hash)s, %(pipeline)s, %(document)s, %(code_version)s) on conflict do nothing

-- name: insert_attempt
-- One try at a batch.
insert into lockstep.attempt (batch_id, token, definition_hash, owner, lease_until,
    dag_id, dag_run_id, task_instance_id, try_number, task_id, map_index, log_starts, unit, nonce, route)
values (%(batch_id)s, %(token)s, %(definition_hash)s, %(owner)s, clock_timestamp() + make_interval(secs => %(lease)s),
    %(dag_id)s, %(dag_run_id)s, %(task_instance_id)s, %(try_number)s, %(task_id)s, %(map_index)s, %(log_starts)s, %(unit)s, %(nonce)s::uuid, %(route)s)

-- name: renew_lease
-- The holder is alive; not one row means that a newer attempt, or a decision, has taken the batch away.
update lockstep.attempt a set lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
from lockstep.batch b
where a.batch_id = %(batch_id)s and a.token = %(token)s and a.nonce is not distinct from %(nonce)s::uuid and a.closed_at is null
  and b.batch_id = a.batch_id and b.token = a.token and b.state = 'planned'

-- name: wait_for_no_standby
-- A lease says who is alive, and nothing that a failover could take back.
select set_config('synchronous_commit', 'local', false)

-- name: free_lease
-- The holder lets go before its time.
update lockstep.attempt set lease_until = clock_timestamp()
where batch_id = %(batch_id)s and token = %(token)s and nonce is not distinct from %(nonce)s::uuid and closed_at is null and lease_until > clock_timestamp()

-- name: hand_over
-- Between two tasks of a run nobody can renew; the time to pick up doubles with every attempt that came before.
update lockstep.attempt a set lease_until = clock_timestamp() + make_interval(secs => %(lease)s * 2 ^ least(%(doublings)s, (
    select count(*) from lockstep.attempt o where o.batch_id = a.batch_id and o.token < a.token)))
where a.batch_id = %(batch_id)s and a.token = %(token)s and a.nonce is not distinct from %(nonce)s::uuid and a.closed_at is null

-- name: free_batch_lease
-- The planner lets go of a batch that no attempt was opened for.
update lockstep.batch set lease_until = clock_timestamp()
where batch_id = %(batch_id)s and state = 'planned' and owner = %(owner)s and lease_until > clock_timestamp()

-- name: name_application
-- How the engine's own pages call this attempt, where they are, and its event log.
update lockstep.attempt set spark_application_id = %(id)s, spark_ui = %(ui)s, spark_event_log = %(event_log)s
where batch_id = %(batch_id)s and token = %(token)s and nonce is not distinct from %(nonce)s::uuid and closed_at is null

-- name: seconds_staging
-- From the opening of an attempt until everything was staged.
select extract(epoch from staged_at - opened_at)::float as seconds from lockstep.attempt
where batch_id = %(batch_id)s and token = %(token)s

-- name: mark_staged
-- Everything is read and staged, on this route.
update lockstep.attempt set state = 'staged', staged_at = clock_timestamp(), route = %(route)s
where batch_id = %(batch_id)s and token = %(token)s and nonce is not distinct from %(nonce)s::uuid and state = 'open'

-- name: mark_validated
-- The attempt may be committed.
update lockstep.attempt set state = 'validated', validated_at = clock_timestamp()
where batch_id = %(batch_id)s and token = %(token)s and nonce is not distinct from %(nonce)s::uuid and state = 'staged'

-- name: open_attempts_of_task
-- What a task is still at.
select batch_id, token, nonce::text as nonce from lockstep.attempt
where task_instance_id = %(task_instance_id)s and closed_at is null and state = 'open' order by 1, 2

-- name: close_failed
-- The attempt ends without a commit; `data` counts towards blocking the batch, `surroundings` does not.
update lockstep.attempt set state = 'failed', closed_at = clock_timestamp(), error = %(error)s, fault = %(fault)s
where batch_id = %(batch_id)s and token = %(token)s and nonce is not distinct from %(nonce)s::uuid and closed_at is null
