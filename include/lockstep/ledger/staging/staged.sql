-- name: create_staging
-- The attempt's own table, in the transaction that opens it: a table made later could outlive reap.
create table {table} ({columns})

-- name: analyze
-- Nobody knows a new table: without a look at some of its rows many are planned for as if they were few.
set local default_statistics_target = 10; analyze {columns}; set local default_statistics_target to default

-- name: staged_totals
-- What the winners' staged rows really are, per stream; rows are grouped before they are joined, for they are many.
select t.stream_id, sum(t.rows)::int8 as rows, sum(t.rejected)::int8 as rejected,
    min(t.first_offset) as first_offset, max(t.last_offset) as last_offset
from (select _task as task, _stream as stream_id, count(*) - count(_reason) as rows, count(_reason) as rejected,
          min(_offset) as first_offset, max(_offset) as last_offset
      from {table} s group by _task, _stream) t
join (select distinct task from lockstep.manifest where batch_id = %(batch_id)s and token = %(token)s) w on w.task = t.task
group by t.stream_id order by t.stream_id

-- name: staged_records
-- How many records reached the winners' rows, per stream: a transform may spread one record's rows over several tasks.
select t._stream as stream_id, count(distinct t._offset) as written
from {table} t where t._task = any(%(tasks)s) and t._reason is null and not t._deleted
group by t._stream

-- name: of_winners
-- The winners' staged rows.
select t.* from {table} t join (
    select distinct task from lockstep.manifest where batch_id = %(batch_id)s and token = %(token)s) w on w.task = t._task

-- name: reasons
-- Why some of these rows are rejects, the most frequent reason first, each with its first place. An expectation's are one,
-- whatever it has seen.
select r.reason, count(*) as count,
    (array_agg(concat(s.topic, '-', s.partition, ' offset ', r._offset) order by s.topic, s.partition, r._offset))[1] as first
from (
    select _stream, _offset, regexp_replace(_reason, '^(expectation [a-z0-9_]+\([^)]*\)): .*$', '\1') as reason
    from {rows} t where _reason is not null) r
join lockstep.stream s on s.stream_id = r._stream
group by r.reason order by count(*) desc, r.reason limit %(most)s

-- name: staging_tables
-- How many staging tables an attempt has filled: one, unless something is said of others.
select coalesce(max(place), 0) + 1 as tables from lockstep.target_rows where batch_id = %(batch_id)s and token = %(token)s

-- name: staged_in
-- What all staging tables of an attempt have in common.
select _stream, _offset, _task, _reason, _deleted from {table}
