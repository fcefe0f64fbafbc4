-- name: hidden_in
-- The table in which a batch's rows are hidden, if they are.
select rows_table from lockstep.hidden_batch where batch_id = %(batch_id)s

-- name: hide
-- From here on no view shows the batch's rows; committed before the first of them.
insert into lockstep.hidden_batch (batch_id, rows_table) values (%(batch_id)s, %(rows_table)s)

-- name: unhide
-- Nothing of an abandoned batch is left to hide.
delete from lockstep.hidden_batch where batch_id = %(batch_id)s

-- name: show
-- With this transaction's COMMIT the views show the batch's rows.
with shown as (delete from lockstep.hidden_batch where batch_id = %(batch_id)s)
select exists (select from lockstep.landed where batch_id = %(batch_id)s and token = %(token)s) as has_landed

-- name: clear
-- What lost attempts have copied of a batch's offsets, found by where it was read: for this batch, or for one that was abandoned.
delete from {rows_table} t using lockstep.batch_range r
where r.batch_id = %(batch_id)s and t._stream = r.stream_id and t._offset >= lower(r.offsets) and t._offset < upper(r.offsets)
  and (t._batch = %(batch_id)s or t._batch in (
    select h.batch_id from lockstep.hidden_batch h join lockstep.batch b using (batch_id) where b.state = 'abandoned'))

-- name: let_tasks_reject
-- The tasks copy rows into the target, and rejects into the attempt's staging table.
grant select, insert on {table} to lockstep_partition

-- name: give_rejects
-- A range's rejects, for the commit to publish.
insert into {table} (_stream, _offset, _ordinal, _task, _timestamp, _deleted, _reason, _key, _value, _headers)
select t._stream, t._offset, t._ordinal, %(task)s, t._timestamp, t._deleted, t._reason, t._key, t._value, t._headers
from {rows} t where t._reason is not null

-- name: land
-- The range's rows are where they stay.
insert into lockstep.landed (batch_id, token, stream_id, offsets, rows, rows_digest, shape_id)
values (%(batch_id)s, %(token)s, %(stream_id)s, int8range(%(from_offset)s, %(until_offset)s), %(rows)s, %(rows_digest)s, %(shape_id)s)

-- name: landed_of
-- The offsets among these that an attempt has copied, and whether it has copied them all.
select coalesce(sum(upper(l.offsets * w.offsets) - lower(l.offsets * w.offsets)), 0) as copied
from lockstep.landed l, (values (int8range(%(from_offset)s, %(until_offset)s))) w (offsets)
where (l.batch_id, l.token, l.stream_id) = (%(batch_id)s, %(token)s, %(stream_id)s) and l.offsets && w.offsets

-- name: landed_before
-- Whether an older attempt at the batch has copied pieces of a range.
select exists (
    select from lockstep.landed l join lockstep.batch_range r using (batch_id, stream_id)
    where l.batch_id = %(batch_id)s and l.token < %(token)s and l.offsets <> r.offsets) as has_cut

-- name: hidden_rows
-- The table that holds the rows of an attempt whose tasks have copied them, with the columns of their digest.
select b.rows_table, h.columns from lockstep.hidden_batch b
join lockstep.landed l using (batch_id) join lockstep.shape h using (shape_id)
where l.batch_id = %(batch_id)s and l.token = %(token)s limit 1

-- name: landed
-- What an attempt has copied of each range, with the columns that its digest covers.
select l.stream_id, l.rows, l.rows_digest, l.shape_id, h.target, h.columns
from lockstep.landed l join lockstep.shape h using (shape_id)
where l.batch_id = %(batch_id)s and l.token = %(token)s order by l.stream_id

-- name: abandoned_in
-- Whether a table holds rows of batches that were abandoned: they have the keys of whoever reads the offsets again.
select exists (
    select from lockstep.hidden_batch h join lockstep.batch b using (batch_id)
    where h.rows_table = %(rows_table)s and b.state = 'abandoned') as does

-- name: left
-- Batches that are over and were never committed, with the table that may hold rows of theirs.
select h.batch_id, h.rows_table, to_regclass(h.rows_table) is not null as is_there
from lockstep.hidden_batch h join lockstep.batch b using (batch_id)
where b.state = 'abandoned' order by 1
