-- name: limit_statements
-- A task's statements end, whoever stands still.
select set_config('statement_timeout', %(milliseconds)s, false)

-- name: record_task
-- Which connection a task commits over, for the next attempt to find.
insert into lockstep.task_backend (batch_id, token, pid, backend_start)
select a.batch_id, a.token, %(pid)s, %(backend_start)s from lockstep.attempt a
where a.batch_id = %(batch_id)s and a.token = %(token)s and a.nonce is not distinct from %(nonce)s::uuid

-- name: older_tasks
-- The tasks' connections of the attempts that a newer one fences out: what they have not committed would stand in its way.
select pid, backend_start from lockstep.task_backend where batch_id = %(batch_id)s

-- name: create_rows
-- A range's rows, seen by this connection alone and gone with it.
create temp table {rows} ({columns})

-- name: copy_rows
-- Rows in COPY's binary format: no text is read, and none is made.
copy {rows} ({columns}) from stdin with (format binary)

-- name: drop_rows
-- The range's rows have done their work.
drop table if exists {rows}

-- name: count_rows
-- What has been copied, counted by the database.
select count(*) filter (where t._reason is null) as rows, count(*) filter (where t._reason is not null) as rejected,
    count(*) filter (where t._stream <> %(stream_id)s) as strangers, min(t._offset) as first_offset, max(t._offset) as last_offset,
    coalesce(sum({row}) filter (where t._reason is null), 0) as rows_digest,
    coalesce(sum({reject}) filter (where t._reason is not null), 0) as rejects_digest
from {rows} t

-- name: lock_range
-- One try at a range at a time: the next one finds its commit row, or nothing of it.
select pg_advisory_xact_lock(hashtextextended(concat_ws('.', 'lockstep.range ' || %(batch_id)s, %(stream_id)s, %(from_offset)s::bigint), 0))

-- name: range_committed
-- The witness of one range.
select token from lockstep.commit where batch_id = %(batch_id)s and stream_id = %(stream_id)s

-- name: committed_streams
-- The ranges that need not be read for their rows.
select stream_id from lockstep.commit where batch_id = %(batch_id)s

-- name: share_batch
-- The batch stays this attempt's until the transaction ends: who opens another one waits.
select state, token, nonce::text, (select max(version) from lockstep.migration) as ledger_version
from lockstep.batch where batch_id = %(batch_id)s for share

-- name: publish_range_rejects
-- Rejects travel with the rows.
insert into lockstep.reject (stream_id, "offset", batch_id, timestamp, key, value, headers, reason)
select t._stream, t._offset, %(batch_id)s, t._timestamp, t._key, t._value, t._headers::json, t._reason
from {rows} t where t._reason is not null

-- name: insert_range_commit
-- From now on the ledger is the witness of this range.
insert into lockstep.commit (batch_id, stream_id, token, nonce, definition_hash)
values (%(batch_id)s, %(stream_id)s, %(token)s, %(nonce)s::uuid, %(definition_hash)s)

-- name: insert_range_coverage
-- The batch owns the range's offsets.
insert into lockstep.coverage (stream_id, offsets, kind, batch_id)
select r.stream_id, r.offsets, 'batch', r.batch_id from lockstep.batch_range r
where r.batch_id = %(batch_id)s and r.stream_id = %(stream_id)s

-- name: move_position
-- Compare and set: the position moves only from where the range begins, on a stream that is still open.
update lockstep.stream s set position = upper(r.offsets) from lockstep.batch_range r
where r.batch_id = %(batch_id)s and r.stream_id = %(stream_id)s and s.stream_id = r.stream_id
  and s.position = lower(r.offsets) and s.retired_at is null

-- name: release_range
-- The range's offsets are covered now; late in the transaction, for planners wait on these rows.
delete from lockstep.claim where batch_id = %(batch_id)s and stream_id = %(stream_id)s

-- name: ranges_not_committed
-- What still keeps the batch from being closed.
select s.topic, s.partition, lower(r.offsets) as from_offset, upper(r.offsets) as until_offset
from lockstep.batch_range r join lockstep.stream s using (stream_id)
where r.batch_id = %(batch_id)s
  and not exists (select 1 from lockstep.commit c where c.batch_id = r.batch_id and c.stream_id = r.stream_id)
order by s.stream_id

-- name: recorded_ranges
-- What the commit rows of a batch recorded of each range, beside what was kept of it. A replay may have taken a range over since.
select s.topic, s.partition, c.token, u.delivered, u.written, u.rejected, u.rows,
    (select count(*) from lockstep.reject j where j.stream_id = c.stream_id and j.batch_id = c.batch_id) as rejects_kept,
    exists (select 1 from lockstep.coverage v where v.batch_id = c.batch_id and v.stream_id = c.stream_id) as is_held
from lockstep.commit c join lockstep.result u using (batch_id, token, stream_id) join lockstep.stream s using (stream_id)
where c.batch_id = %(batch_id)s order by c.stream_id
