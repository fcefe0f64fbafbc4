-- name: may_change_rows
-- Triggers and rules that may make other rows of those that are inserted.
select c.relhasrules or exists (
    select from pg_trigger g where g.tgrelid = c.oid and not g.tgisinternal and g.tgtype & 3 = 3) as may
from pg_class c where c.oid = to_regclass(%(table)s)

-- name: make_decoded
-- Room for one chunk of records that were decoded again, with the types of a staging table.
create temp table lockstep_decoded ({columns}) on commit drop

-- name: empty_decoded
-- The next chunk takes the place of the last one.
truncate pg_temp.lockstep_decoded

-- name: drop_decoded
-- The next target has columns of its own.
drop table pg_temp.lockstep_decoded

-- name: changed_rows
-- Rows of a batch's chunk that are not what their records decode to.
select t._offset as "offset", case when {is_other_kind} then 'it is of a deletion, and its record is none, or the reverse'
    when e."Became" = any(%(rows)s) then array_to_string(array[{differences}]::text[], ', ')
    else 'a row is there, and its record decodes to none' end as what, count(*) over () as wrong
from pg_temp.lockstep_decoded e join {target} t on t._offset = e._offset
where t._stream = %(stream_id)s and t._batch = %(batch_id)s and t._offset >= %(from_offset)s and t._offset < %(until_offset)s
  and (e."Became" <> all(%(rows)s) or {is_different} or {is_other_kind})
order by t._offset, t._ordinal limit %(first)s

-- name: is_other_kind
-- A row of a deletion whose record is none, or the reverse.
t._deleted <> (e."Became" = 'deleted')

-- name: is_different
-- Whether a row's column is not what its record decodes to, where that is sure.
(coalesce(strpos(e."Unsure", {marked}), 0) = 0 and (e.{name}{cast}){as_text} is distinct from (t.{name}){as_text})

-- name: said_of_column
-- What is said of a column that differs.
case when {different} then {said} || ' is ' || coalesce(left(t.{name}::text, {shown}), 'null') || ', its record says '
    || coalesce(left((e.{name}{cast})::text, {shown}), 'null') end
