-- name: make_newest
-- Room for each key's newest record, with the target's own types, and for those of one chunk.
-- A record lacks the values of its columns "Open". Those of "Unsure" are not surely the ones that the row has, too.
create temp table lockstep_newest (
    {columns}, _stream int not null, _offset bigint not null, "Epoch" int not null, "Batch" bigint not null,
    _deleted boolean not null, "Open" text, "Unsure" text, "Comparable" boolean not null,
    "Erased" boolean not null default false, unique ({keys})) on commit drop;
create temp table lockstep_chunk on commit drop as select * from pg_temp.lockstep_newest

-- name: records
-- The records of a chunk that have a row, or delete one.
(select {casts}, t._offset, t."Became", t."Unsure" from pg_temp.lockstep_decoded t where t."Became" = any(%(live)s))

-- name: newest_of_chunk
-- The newest record of each key in a chunk.
truncate pg_temp.lockstep_chunk;
insert into pg_temp.lockstep_chunk (
    {names}, _stream, _offset, "Epoch", "Batch", _deleted, "Open", "Unsure", "Comparable", "Erased")
select distinct on ({keys}) {names}, %(stream_id)s, e._offset, %(epoch)s, %(batch_id)s, e."Became" = 'deleted',
    e."Unsure", e."Unsure", %(comparable)s, false
from {records} e
order by {keys}, {order} e._offset desc

-- name: open_columns
-- The columns that the newest record of some key lacks.
select distinct unnest(string_to_array(trim(both ',' from c."Open"), ',')) as name
from pg_temp.lockstep_chunk c where c."Open" is not null order by name

-- name: fill_from_chunk
-- The value of the newest older record of the key that has one. That of a deletion is null.
with said as (
    select distinct on ({keys}) {keys}, e.{name} from {records} e
    where coalesce(strpos(e."Unsure", {marked}), 0) = 0
    order by {keys}, {order} e._offset desc)
update pg_temp.lockstep_chunk c set {name} = n.{name}, "Unsure" = replace(c."Unsure", {marked}, ',')
from said n where {same_chunk_key} and strpos(c."Unsure", {marked}) > 0

-- name: fill_from_older
-- The value of the newest record before the chunk. It is surely the row's if the same topic's batches came in order.
update pg_temp.lockstep_chunk c set {name} = n.{name},
    "Unsure" = case when n."Comparable" and n._stream = c._stream and n."Batch" <= c."Batch"
            and coalesce(strpos(n."Unsure", {marked}), 0) = 0
        then replace(c."Unsure", {marked}, ',') else c."Unsure" end
from pg_temp.lockstep_newest n where {same_chunk_key} and strpos(c."Unsure", {marked}) > 0

-- name: doubt_late
-- Keys of which the chunk has a record that is older than one before it: what fills a value depends on their batches.
with late as (
    select distinct on ({keys}) n.* from pg_temp.lockstep_newest n join {records} r on {same_record_key}
    where ({record_order} %(epoch)s, r._offset, %(stream_id)s) < ({newest_order} n."Epoch", n._offset, n._stream)),
of_chunk as (
    update pg_temp.lockstep_chunk c set "Unsure" = c."Open" from late n where {same_chunk_key})
update pg_temp.lockstep_newest c set "Unsure" = c."Open" from late n where {same_chunk_key}

-- name: doubt
-- Rows that went with an erasure or a truncation gave nothing to later records.
update pg_temp.lockstep_newest n set "Unsure" = n."Open" where n."Open" is not null

-- name: keep_newest
-- The records of a chunk, each where nothing newer of its key was read before.
insert into pg_temp.lockstep_newest as n select * from pg_temp.lockstep_chunk
on conflict ({keys}) do update set {assignments}{keep_order}, _stream = excluded._stream, _offset = excluded._offset,
    "Epoch" = excluded."Epoch", "Batch" = excluded."Batch", _deleted = excluded._deleted, "Open" = excluded."Open",
    "Unsure" = excluded."Unsure", "Comparable" = excluded."Comparable"
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
drop table pg_temp.lockstep_newest, pg_temp.lockstep_chunk

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
from pg_temp.lockstep_newest e join {target} t on {same_row}
where not e._deleted and not e."Erased"

-- name: changed_keys
-- Rows of a key's newest record that are not what it decodes to.
select jsonb_build_array({shown_keys})::text as key, array_to_string(array[{differences}]::text[], ', ') as what,
    e._stream as stream, e._offset as "offset", count(*) over () as wrong
from pg_temp.lockstep_newest e join {target} t on {same_row}
where e."Comparable" and not e._deleted and not e."Erased" and {is_different}
order by 1 limit %(first)s

-- name: is_unexplained
-- Whether a row's column has another value than the older records that are known.
(strpos(e."Unsure", {marked}) > 0 and e.{name}{as_text} is distinct from t.{name}{as_text})

-- name: unexplained_rows
-- Rows with a value that their record lacks, and that older records do not explain.
select count(*) as rows
from pg_temp.lockstep_newest e join {target} t on {same_row}
where e."Comparable" and not e._deleted and not e."Erased" and ({unexplained})
