-- name: was_truncated
-- Whether this pipeline has read a truncation of its source.
select exists (
    select from lockstep.source_truncation f join lockstep.stream s using (stream_id)
    where f.target = %(target)s and s.pipeline = %(pipeline)s) as yes

-- name: older_rows
-- Rows from before the last truncation. Rows without a place are older than any.
select s.topic, s.partition, 'the row of offset ' || t._offset || ' is from before the truncation at '
    || f.topic || '-' || f.partition || ' offset ' || f."offset" as what
from {target} t left join lockstep.stream s on s.stream_id = t._stream
cross join (
    select f."order", f."offset", its.topic, its.partition
    from lockstep.source_truncation f join lockstep.stream its using (stream_id)
    where f.target = %(target)s and its.pipeline = %(pipeline)s order by f."order" desc limit 1) f
where (t._source_order >= f."order") is not true
order by s.topic, s.partition, t._offset

-- name: floors
-- The last truncation that was read again, or is below log start, and the last one of the ledger.
with of_ledger as (
    select f."order", r.stream_id is not null and f."offset" >= r.log_start as is_readable
    from lockstep.source_truncation f join lockstep.stream s using (stream_id)
    left join unnest(%(streams)s::int[], %(log_starts)s::bigint[]) as r (stream_id, log_start) using (stream_id)
    where f.target = %(target)s and s.pipeline = %(pipeline)s)
select (select e."order" from (
        select n._source_order as "order" from pg_temp.lockstep_newest n where n._deleted and {no_key}
        union all select o."order" from of_ledger o where not o.is_readable) e
    where e."order" is not null order by e."order" desc limit 1) as of_log,
    (select o."order" from of_ledger o order by o."order" desc limit 1) as of_ledger

-- name: drop_truncations
-- They are of no key.
delete from pg_temp.lockstep_newest n where n._deleted and n._source_order is not null and {no_key}

-- name: mark_older
-- What is older than the last truncation has no row.
update pg_temp.lockstep_newest n set _deleted = true where n._source_order < %(floor)s
