-- name: rows_out
-- What an attempt has staged of one stream for one target, in the log's order, with what each record became.
copy (
    select s._offset, s._ordinal, case when s._reason is not null then 'reject' when s._deleted then 'deleted' else 'row' end,
        {unsure}, {columns}
    from {table} s join (
        select distinct task from lockstep.manifest where batch_id = {batch_id} and token = {token}) w on w.task = s._task
    where s._stream = {stream_id} order by s._offset, s._ordinal) to stdout (format binary)

-- name: no_unsure
-- Every column has a value.
null::text

-- name: unavailable
-- Columns whose values the change record does not have.
',' || nullif(s._unavailable, '') || ','

-- name: make_remade
-- Room for what one segment's records became, with the types of a staging table.
create temp table lockstep_remade ({columns}) on commit drop;
create index on pg_temp.lockstep_remade (_offset)

-- name: empty_remade
-- The next segment takes the place of the last one.
truncate pg_temp.lockstep_remade

-- name: rows_in
-- The rows of one segment, as they came from the ledger that was thrown away.
copy pg_temp.lockstep_remade from stdin (format binary)

-- name: drop_remade
-- The next target has columns of its own.
drop table pg_temp.lockstep_remade

-- name: changed_rows
-- Rows of some offsets that the transform makes otherwise, or not at all, and those that it makes and that are not there.
select coalesce(t._offset, e._offset) as "offset", case
        when t._offset is null then 'the transform makes a row of it, and none is there'
        when e._offset is null then 'a row is there, and the transform makes none of its record'
        when {is_other_kind} then 'it is of a deletion, and its record is none, or the reverse'
        else array_to_string(array[{differences}]::text[], ', ') end as what, count(*) over () as wrong
from (select * from pg_temp.lockstep_remade r where r._offset >= %(from_offset)s and r._offset < %(until_offset)s
        and r."Became" = any(%(rows)s) and r._offset <> all(%(gone)s::bigint[])) e
full join (select * from {target} h where h._stream = %(stream_id)s and h._offset >= %(from_offset)s
        and h._offset < %(until_offset)s and h._offset <> all(%(gone)s::bigint[])) t
    on t._offset = e._offset and t._ordinal = e._ordinal
where t._offset is null or e._offset is null or {is_different} or {is_other_kind}
order by 1 limit %(first)s

-- name: into_decoded
-- A segment's rows and deletions, each as if it were a record of its own; of a key's rows of one record the last one counts.
truncate pg_temp.lockstep_decoded;
insert into pg_temp.lockstep_decoded (_offset, "Became", "Unsure", {columns})
select distinct on (r._offset, {keys}) r._offset, r."Became", r."Unsure", {columns}
from pg_temp.lockstep_remade r
where r."Became" = any(%(live)s) and r._offset >= %(from_offset)s and r._offset < %(until_offset)s
order by r._offset, {keys}, {order} r._ordinal desc

-- name: forget_older
-- Of the newest records of keys, those below the first offset of their stream from which on every batch was run again.
delete from pg_temp.lockstep_newest n using unnest(%(streams)s::int[], %(starts)s::bigint[]) as s (stream_id, start)
where n._stream = s.stream_id and n._offset < s.start

-- name: became
-- The offsets of a segment whose record became this.
select distinct r._offset as "offset" from pg_temp.lockstep_remade r
where r."Became" = %(became)s and r._offset >= %(from_offset)s and r._offset < %(until_offset)s

-- name: rows_of_segment
-- A segment's rows.
select * from pg_temp.lockstep_remade r
where r."Became" = 'row' and r._offset >= %(from_offset)s and r._offset < %(until_offset)s order by r._offset, r._ordinal
