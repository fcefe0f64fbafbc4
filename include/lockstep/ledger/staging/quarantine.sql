-- name: create_raw
-- The bytes of what a transform is given, in the transaction that opens the attempt, as its staging table is.
create table {table} ({columns})

-- name: put_aside
-- The records of these coordinates become rejects among the staged rows: all rows of a record go, one reject with its bytes comes.
with violator as (
    select * from unnest(%(streams)s::int[], %(offsets)s::bigint[], %(reasons)s::text[]) as v (stream_id, "offset", reason)),
winner as (select distinct task from lockstep.manifest where batch_id = %(batch_id)s and token = %(token)s),
gone as (
    delete from {table} t using violator v, winner w
    where t._stream = v.stream_id and t._offset = v."offset" and t._task = w.task and t._reason is null
    returning t._stream, t._offset, t._task, t._timestamp, t._key, t._value, t._headers, v.reason, {row} as digest),
reject as (
    insert into {table} as t (_stream, _offset, _ordinal, _task, _timestamp, _deleted, _reason, _key, _value, _headers)
    select distinct on (g._stream, g._offset)
        g._stream, g._offset, 0, g._task, r._timestamp, false, g.reason, r._key, r._value, r._headers
    from gone g join {raw} r on r._stream = g._stream and r._offset = g._offset
    order by g._stream, g._offset
    returning t._stream, {reject} as digest)
select g._stream as stream_id, count(*) as rows, count(distinct g._offset) as records, sum(g.digest) as rows_digest,
    (select coalesce(sum(r.digest), 0) from reject r where r._stream = g._stream) as rejects_digest
from gone g group by g._stream

-- name: let_tasks_keep
-- Tasks that copy rows behind a view keep their records' bytes here, until an expectation has judged them.
grant select, insert on {table} to lockstep_partition

-- name: copy_raw
-- The bytes of a range's records.
copy {table} ({columns}) from stdin with (format binary)

-- name: put_aside_hidden
-- The records of these coordinates become rejects: no row of them stays behind the view, and their ranges were copied without them.
with violator as (
    select * from unnest(%(streams)s::int[], %(offsets)s::bigint[], %(reasons)s::text[]) as v (stream_id, "offset", reason)),
winner as (
    select stream_id, min(task) as task from lockstep.manifest where batch_id = %(batch_id)s and token = %(token)s group by 1),
gone as (
    delete from {rows} t using violator v
    where t._stream = v.stream_id and t._offset = v."offset" and t._batch = %(batch_id)s
    returning t._stream, t._offset, v.reason, {row} as digest),
of_stream as (
    select g._stream as stream_id, count(*) as rows, count(distinct g._offset) as records, sum(g.digest) as rows_digest
    from gone g group by 1),
reject as (
    insert into {table} as t (_stream, _offset, _ordinal, _task, _timestamp, _deleted, _reason, _key, _value, _headers)
    select distinct on (g._stream, g._offset)
        g._stream, g._offset, 0, w.task, r._timestamp, false, g.reason, r._key, r._value, r._headers
    from gone g join winner w on w.stream_id = g._stream join {raw} r on r._stream = g._stream and r._offset = g._offset
    order by g._stream, g._offset
    returning t._stream, {reject} as digest),
of_piece as (
    select l.stream_id, l.offsets, count(*) as rows, sum(g.digest) as rows_digest
    from gone g join lockstep.landed l on l.stream_id = g._stream and l.offsets @> g._offset
    where l.batch_id = %(batch_id)s and l.token = %(token)s group by 1, 2),
lowered as (
    update lockstep.landed l set rows = l.rows - p.rows, rows_digest = l.rows_digest - p.rows_digest from of_piece p
    where (l.batch_id, l.token, l.stream_id, l.offsets) = (%(batch_id)s, %(token)s, p.stream_id, p.offsets))
select s.*, (select coalesce(sum(r.digest), 0) from reject r where r._stream = s.stream_id) as rejects_digest
from of_stream s

-- name: bytes_beside
-- Where rows have no bytes: what tasks, tries that lost included, have read of these records.
(select distinct on (b._stream, b._offset) b.* from {beside} b
    join violator v on v.stream_id = b._stream and v."offset" = b._offset order by b._stream, b._offset)
