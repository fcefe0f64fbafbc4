-- name: send_table
-- The rows that a pipeline sends, until its feed is trimmed. Its columns are those that reach the target.
create table if not exists {table} ({columns}, primary key ({key}))

-- name: taken_back
-- What the open sets of this transaction would take back of rows that were sent.
select c.batch_id, f.target, u.changed, u.gone, u.again
from lockstep.change_set c join lockstep.feed f using (target) cross join lateral lockstep.unsaid(c.change_set_id) u
where c.xid = pg_current_xact_id() and c.seq is null and f.sends and u.changed + u.gone + u.again > 0

-- name: left_out
-- How many segments of a target have rows that were sent and are trimmed.
select count(*) as segments from lockstep.segment g join lockstep.trimmed x using (stream_id)
where x.target = %(target)s and x.offsets && g.offsets

-- name: trimmed_batches
-- The batches that own offsets of a stream whose sent rows are trimmed.
select g.batch_id from lockstep.segment g join lockstep.trimmed x using (stream_id)
where x.target = %(target)s and x.stream_id = %(stream_id)s and x.offsets && g.offsets
