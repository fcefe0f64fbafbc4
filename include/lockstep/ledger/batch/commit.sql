-- name: my_backend
-- This connection's process and its start; under a role one's own start reads null, so it is asked for under none.
select pid, backend_start from pg_stat_activity where pid = pg_backend_pid()

-- name: record_backend
-- Which connection commits, so that a resolver can end it when it hangs.
update lockstep.attempt set backend_pid = %(pid)s, backend_start = %(backend_start)s
where batch_id = %(batch_id)s and token = %(token)s and nonce is not distinct from %(nonce)s::uuid and closed_at is null

-- name: committed_by
-- The witness: who committed the last of this batch, if anybody; ranges that tasks committed do not close it.
select distinct b.token, b.nonce::text from lockstep.batch b join lockstep.commit c using (batch_id)
where b.batch_id = %(batch_id)s and b.state = 'committed'

-- name: attempt_to_commit
-- The attempt's state and whether its verdict let it pass.
select a.state, v.success from lockstep.attempt a left join lockstep.verdict v using (batch_id, token)
where a.batch_id = %(batch_id)s and a.token = %(token)s and a.nonce is not distinct from %(nonce)s::uuid

-- name: lock_streams
-- The streams of the batch, in the one order that everybody takes.
select s.stream_id, s.partition, s.topic, s.position, lower(r.offsets) as from_offset, s.retired_at is not null as retired
from lockstep.batch_range r join lockstep.stream s using (stream_id)
where r.batch_id = %(batch_id)s order by s.stream_id for no key update of s

-- name: publish_rejects
-- Rejects travel with the rows.
insert into lockstep.reject (stream_id, "offset", batch_id, timestamp, key, value, headers, reason)
select t._stream, t._offset, %(batch_id)s, t._timestamp, t._key, t._value, t._headers::json, t._reason
from {table} t join (select distinct task from lockstep.manifest where batch_id = %(batch_id)s and token = %(token)s) w
    on w.task = t._task
where t._reason is not null and exists (
    select from lockstep.result r where r.batch_id = %(batch_id)s and r.token = %(token)s and r.rejected > 0)

-- name: give_way
-- The coverage that plan has seen under the claims of a fill or replay, and exactly that, makes room for it.
delete from lockstep.coverage c using lockstep.claim k
where k.batch_id = %(batch_id)s and k.expects <> 'nothing' and c.stream_id = k.stream_id
  and (%(stream_id)s is null or k.stream_id = %(stream_id)s)
  -- a segment begins where its claim does; a skipped stretch is the last row that begins at or before it
  and lower(c.offsets) = case k.expects when 'batch' then lower(k.offsets) else (
    select lower(p.offsets) from lockstep.coverage p
    where p.stream_id = k.stream_id and lower(p.offsets) <= lower(k.offsets) order by lower(p.offsets) desc limit 1) end
  and c.kind = k.expects and c.batch_id is not distinct from k.expects_batch
  and case k.expects when 'batch' then c.offsets = k.offsets else c.offsets @> k.offsets end
returning c.stream_id, c.kind, lower(c.offsets) as from_offset, upper(c.offsets) as until_offset,
    lower(k.offsets) as claimed_from, upper(k.offsets) as claimed_until

-- name: keep_skipped
-- What a fill leaves of a skipped stretch stays skipped.
insert into lockstep.coverage (stream_id, offsets, kind)
values (%(stream_id)s, int8range(%(from_offset)s, %(until_offset)s), 'skipped')

-- name: not_as_expected
-- Claims whose coverage has not given way: how many were to, and under how many something still lies.
select (select count(*) from lockstep.claim where batch_id = %(batch_id)s and expects <> 'nothing'
        and (%(stream_id)s is null or stream_id = %(stream_id)s)) as expected,
    (select count(*) from lockstep.claim k cross join lateral (
        select c.offsets from lockstep.coverage c
        where c.stream_id = k.stream_id and lower(c.offsets) < upper(k.offsets) order by lower(c.offsets) desc limit 1) c
     where k.batch_id = %(batch_id)s and c.offsets && k.offsets
       and (%(stream_id)s is null or k.stream_id = %(stream_id)s)) as in_the_way

-- name: remove_replaced_rejects
-- A replay judges its records again.
delete from lockstep.reject j using lockstep.claim k
where k.batch_id = %(batch_id)s and k.expects = 'batch' and j.stream_id = k.stream_id
  and (%(stream_id)s is null or k.stream_id = %(stream_id)s)
  and j."offset" >= lower(k.offsets) and j."offset" < upper(k.offsets)

-- name: insert_commits
-- One commit row per range: from now on the ledger is the witness.
insert into lockstep.commit (batch_id, stream_id, token, nonce, definition_hash)
select r.batch_id, r.stream_id, %(token)s, %(nonce)s::uuid, %(definition_hash)s
from lockstep.batch_range r where r.batch_id = %(batch_id)s order by r.stream_id

-- name: insert_coverage
-- The batch owns its offsets.
insert into lockstep.coverage (stream_id, offsets, kind, batch_id)
select r.stream_id, r.offsets, 'batch', r.batch_id from lockstep.batch_range r
where r.batch_id = %(batch_id)s order by r.stream_id

-- name: move_positions
-- Compare and set: a position moves only from where the batch begins, on a stream that is still open.
update lockstep.stream s set position = upper(r.offsets) from lockstep.batch_range r
where r.batch_id = %(batch_id)s and s.stream_id = r.stream_id and s.position = lower(r.offsets) and s.retired_at is null

-- name: committed_ranges
-- What the witness says of a batch: its ranges with what was read of each, empty counts where nothing is committed. Each range is
-- looked up by itself: Postgres takes a new batch for one row, and would compare all ranges with all commits.
select s.topic, s.partition, lower(r.offsets) as from_offset, upper(r.offsets) as until_offset,
    u.delivered, u.written, u.rejected, u.filtered, b.lane, b.state
from lockstep.batch b join lockstep.batch_range r using (batch_id) join lockstep.stream s using (stream_id)
left join lateral (
    select u.* from lockstep.commit c join lockstep.result u using (batch_id, token, stream_id)
    where c.batch_id = r.batch_id and c.stream_id = r.stream_id limit 1) u on true
where b.batch_id = %(batch_id)s order by s.partition, s.stream_id

-- name: close_attempt
-- The attempt has committed; what the target did is counted apart.
update lockstep.attempt set state = 'committed', closed_at = clock_timestamp(), effect = %(effect)s
where batch_id = %(batch_id)s and token = %(token)s and nonce is not distinct from %(nonce)s::uuid and state = 'validated'

-- name: release_claims
-- The offsets are covered now; late in the transaction, for planners wait on these rows.
delete from lockstep.claim where batch_id = %(batch_id)s

-- name: close_batch
-- The batch is committed, once and whole.
update lockstep.batch set state = 'committed', closed_at = clock_timestamp() where batch_id = %(batch_id)s and state = 'planned'

-- name: backend_of
-- The recorded committer of an attempt.
select backend_pid as pid, backend_start from lockstep.attempt
where batch_id = %(batch_id)s and token = %(token)s and nonce is not distinct from %(nonce)s::uuid

-- name: end_backends
-- Ends these connections, each if it is still that very one.
select pg_terminate_backend(p.pid, 5000) from pg_stat_activity p
join unnest(%(pids)s::int[], %(starts)s::timestamptz[]) as t (pid, backend_start) using (pid, backend_start)
where p.pid <> pg_backend_pid()

-- name: staging_left
-- Staging tables of attempts that can never commit, or never existed.
select c.relname as table_name from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'lockstep_staging' and c.relkind = 'r'
  and not exists (
    select 1 from lockstep.attempt a join lockstep.batch b using (batch_id)
    where starts_with(c.relname || '_', lockstep.staging_name(a.batch_id, a.token, a.nonce) || '_')
      and b.state = 'planned' and a.closed_at is null and a.token = b.token)
order by 1

-- name: staging_of
-- The tables of one attempt that are there.
select c.relname as table_name from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'lockstep_staging' and c.relkind = 'r' and starts_with(c.relname || '_', %(table)s || '_') order by 1

-- name: end_stagers
-- Sessions that still write an attempt's staging table: no time-out of the server ends a COPY whose client stands still.
select pg_terminate_backend(pid) from pg_stat_activity
where datname = current_database() and application_name = %(name)s and (usename = session_user
    or pg_has_role(session_user, usesysid, 'USAGE') and pg_has_role(usesysid, 'lockstep_executor', 'MEMBER'))

-- name: wait_for_no_standby
-- A table that comes back with a failover is dropped by reap.
select set_config('synchronous_commit', 'local', true)

-- name: drop_staging
-- The staged rows have done their work.
drop table if exists {table}
