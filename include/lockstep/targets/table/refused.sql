-- name: records
-- How many records have rows.
select count(*) as records, coalesce(sum(n), 0)::bigint as rows from (
    select count(*) as n from {rows} r group by r._stream, r._offset) each

-- name: record_at
-- The record at this number, in the order of streams and offsets, and its partition.
select r._stream as stream_id, r._offset as "offset", s.topic, s.partition from {rows} r
join lockstep.stream s on s.stream_id = r._stream
group by 1, 2, 3, 4 order by 1, 2 offset %(number)s limit 1

-- name: up_to
-- The rows of the records up to one of them.
(select r.* from {rows} r where (r._stream, r._offset) <= ({stream_id}, {offset}))

-- name: begin_trial
-- A trial changes nothing, whether the table takes its rows or not.
savepoint of_a_trial

-- name: end_trial
-- What the trial wrote is gone.
rollback to savepoint of_a_trial
