-- name: staged_by_task
-- Each task's staged rows and rejects, per stream: counts, offsets and digests by one look.
select t._task as task, t._stream as stream_id, count(*) - count(t._reason) as rows, count(t._reason) as rejected,
    min(t._offset) as first_offset, max(t._offset) as last_offset,
    coalesce(sum(t._offset) filter (where t._reason is null), 0) as offsets, sum({row}) filter (where t._reason is null) as rows_digest,
    sum({reject}) filter (where t._reason is not null) as rejects_digest
from {table} t group by 1, 2

-- name: staged_by_stream
-- The winners' staged rows and rejects of one target, per stream: counts and digests by one look.
select t.stream_id, sum(t.rows)::int8 as rows, sum(t.rejected)::int8 as rejected,
    coalesce(sum(t.rows_digest), 0) as rows_digest, coalesce(sum(t.rejects_digest), 0) as rejects_digest
from (select t._task as task, t._stream as stream_id, count(*) - count(t._reason) as rows, count(t._reason) as rejected,
          sum({row}) filter (where t._reason is null) as rows_digest,
          sum({reject}) filter (where t._reason is not null) as rejects_digest
      from {table} t group by t._task, t._stream) t
join (select distinct task from lockstep.manifest where batch_id = %(batch_id)s and token = %(token)s) w on w.task = t.task
group by t.stream_id order by t.stream_id

-- name: expected
-- What validate recorded per stream: counts and digests, with the partition's name.
select u.stream_id, s.topic, s.partition, u.rows, u.rejected, u.rows_digest, u.rejects_digest
from lockstep.result u join lockstep.stream s using (stream_id)
where u.batch_id = %(batch_id)s and u.token = %(token)s order by u.stream_id

-- name: insert_contents
-- The digests that the committing transaction found.
insert into lockstep.content (batch_id, stream_id, place, rows_digest, rejects_digest, shape_id, target_digest) values %s

-- name: shape
-- The number of a list of columns, where it has one.
select shape_id from lockstep.shape where hash = %(hash)s

-- name: insert_shape
-- A new list of columns gets a number; another transaction may have been first.
insert into lockstep.shape (hash, target, columns) values (%(hash)s, %(target)s, %(columns)s) on conflict do nothing
