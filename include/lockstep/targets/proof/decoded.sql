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

-- name: make_newest
-- Room for each key's newest record, with the target's own types.
create temp table lockstep_newest (
    {columns}, _stream int not null, _offset bigint not null, "Epoch" int not null,
    _deleted boolean not null, "Unsure" text, "Comparable" boolean not null, "Erased" boolean not null default false,
    unique ({keys})) on commit drop

-- name: keep_newest
-- The records of a chunk, each where nothing newer of its key was read before.
insert into pg_temp.lockstep_newest as n ({names}, _stream, _offset, "Epoch", _deleted, "Unsure", "Comparable")
select distinct on ({keys}) {names}, %(stream_id)s, e._offset, %(epoch)s, e."Became" = 'deleted', e."Unsure", %(comparable)s
from (select {casts}, t._offset, t."Became", t."Unsure" from pg_temp.lockstep_decoded t where t."Became" = any(%(live)s)) e
order by {keys}, {order} e._offset desc
on conflict ({keys}) do update set {assignments}{keep_order}, _stream = excluded._stream, _offset = excluded._offset, "Epoch" = excluded."Epoch",
    _deleted = excluded._deleted, "Unsure" = excluded."Unsure", "Comparable" = excluded."Comparable"
where ({excluded_order} excluded."Epoch", excluded._offset, excluded._stream) > ({kept_order} n."Epoch", n._offset, n._stream)

-- name: placed
-- A tombstone without its deletion has the order of its key's newest record before it. A chunk is of one stream.
coalesce(t._source_order, decode(substring(
    max(encode(int8send(t._offset) || t._source_order, 'hex') collate "C") filter (where t._source_order is not null)
        over (partition by {keys} order by t._offset) from 17), 'hex')) as _source_order

-- name: keep_order
-- A tombstone without its deletion comes behind what was read before, in the order of the topic.
, _source_order = coalesce(excluded._source_order, n._source_order)

-- name: mark_erased
-- Newest records that hold an erased key: what is there of their keys is another record's, or nothing.
update pg_temp.lockstep_newest t set "Erased" = true
from lockstep.stream s, lockstep.erasure e, lockstep.erasure_bound b
where s.stream_id = t._stream and e.pipeline = %(pipeline)s and e.column_name = %(column)s and e.as_uuid = %(as_uuid)s
  and e.digest = lockstep.key_digest(
    (select z.salt from lockstep.erasure_salt z where z.pipeline = e.pipeline), convert_to({key}, 'UTF8'))
  and b.erasure_id = e.erasure_id and b.topic_id = s.topic_id and b.partition = s.partition and t._offset < b.until_offset

-- name: drop_newest
-- The next target has keys of its own.
drop table pg_temp.lockstep_newest

-- name: count_newest
-- How many keys were read, and of how many newest records the values can be compared.
select count(*) filter (where not _deleted) as keys, count(*) filter (where "Comparable" and not _deleted) as comparable
from pg_temp.lockstep_newest where not "Erased"

-- name: misplaced_keys
-- Keys whose row is not their newest record's, rows that no record made, and keys that have several rows.
with readable as (
    select * from unnest(%(streams)s::int[], %(log_starts)s::bigint[]) as r (stream_id, log_start)),
looked_at as (
    select t.*, r.stream_id is not null and t._offset >= r.log_start as "IsReadable", r.stream_id is not null as "IsOurs",
        count(*) over (partition by {target_keys}) as "Copies"
    from {target} t left join readable r on r.stream_id = t._stream)
select jsonb_build_array({shown_keys})::text as key, case
        when t."Copies" > 1 then t."Copies" || ' rows have this key'
        when n._stream is null then 'no record of the log made its row, stream ' || t._stream || ' offset ' || t._offset
        else 'its newest record is stream ' || n._stream || ' offset ' || n._offset || case
            when n._deleted then ', a tombstone, and a row is there'
            when t._stream is null then ', and its row is missing'
            else ', its row is stream ' || t._stream || ' offset ' || t._offset end end as what,
    coalesce(n._stream, t._stream) as stream, coalesce(n._offset, t._offset) as "offset", count(*) over () as wrong
from pg_temp.lockstep_newest n full join looked_at t on {same_key}
where case
    when t."Copies" > 1 then true
    when n."Erased" then false
    when n._stream is null then t."IsReadable"
    when n._deleted then coalesce(t."IsReadable" or (t."IsOurs" and not %(ordered)s), false)
    when t._stream is null then true
    when not t."IsOurs" or (%(ordered)s and not t."IsReadable") then false
    else (t._stream, t._offset) <> (n._stream, n._offset) end
order by 1 limit %(first)s

-- name: left_out_rows
-- Rows of the target that the readable log says nothing about: older ones, and those of other pipelines.
select count(*) filter (where r.stream_id is null) as of_others, count(*) filter (where t._offset < r.log_start) as older,
    count(*) as rows
from {target} t
left join unnest(%(streams)s::int[], %(log_starts)s::bigint[]) as r (stream_id, log_start) on r.stream_id = t._stream

-- name: comparable_rows
-- Rows of a key's newest record whose values can be compared with it, and the oldest batch whose values cannot.
select count(*) filter (where e."Comparable") as compared, min(t._batch) filter (where not e."Comparable") as batch
from pg_temp.lockstep_newest e join {target} t on {same_key} and t._stream = e._stream and t._offset = e._offset
where not e._deleted and not e."Erased"

-- name: changed_keys
-- Rows of a key's newest record that are not what it decodes to.
select jsonb_build_array({shown_keys})::text as key, array_to_string(array[{differences}]::text[], ', ') as what,
    e._stream as stream, e._offset as "offset", count(*) over () as wrong
from pg_temp.lockstep_newest e join {target} t on {same_key} and t._stream = e._stream and t._offset = e._offset
where e."Comparable" and not e._deleted and not e."Erased" and {is_different}
order by 1 limit %(first)s

-- name: is_different
-- Whether a row's column is not what its record decodes to, where that is sure.
(coalesce(strpos(e."Unsure", {marked}), 0) = 0 and (e.{name}{cast}){as_text} is distinct from (t.{name}){as_text})

-- name: said_of_column
-- What is said of a column that differs.
case when {different} then {said} || ' is ' || coalesce(left(t.{name}::text, {shown}), 'null') || ', its record says '
    || coalesce(left((e.{name}{cast})::text, {shown}), 'null') end
