-- name: insert_target_rows
-- What the winners have staged for each target, streams without a row included.
insert into lockstep.target_rows (batch_id, token, place, target, stream_id, rows, records, offsets) values %s

-- name: staged_versions
-- How many records have a version among these tasks' rows of a history, per stream. A tombstone has one, too.
select t._stream as stream_id, count(distinct t._offset) as records
from {table} t where t._task = any(%(tasks)s) and t._reason is null group by t._stream

-- name: target_rows
-- What an attempt has staged for each target, by place and stream; no row where there is one target.
select p.place, p.target, p.stream_id, p.rows, s.topic, s.partition
from lockstep.target_rows p join lockstep.stream s using (stream_id)
where p.batch_id = %(batch_id)s and p.token = %(token)s order by p.place, p.stream_id

-- name: staged_rows
-- The winners' rows of one staging table, per stream, rejects left out.
select t._stream as stream_id, count(*) as rows
from {table} t join (select distinct task from lockstep.manifest where batch_id = %(batch_id)s and token = %(token)s) w
    on w.task = t._task
where t._reason is null group by t._stream
