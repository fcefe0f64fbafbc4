-- name: lock_target
-- One delivery at a time writes this target: who waits here sees what the one before has done.
select pg_advisory_xact_lock(hashtextextended('lockstep.target ' || %(target)s, 0))

-- name: keep_ranges
-- The offsets that this delivery is about.
create temp table arriving_range on commit drop as
select * from unnest(%(streams)s::int[], %(froms)s::bigint[], %(untils)s::bigint[]) as r (stream_id, from_offset, until_offset)

-- name: arrivals
-- Deliveries that lie on these offsets, the newest first: the fence, in the store itself.
select a.batch_id, a.token, a.stream_id, lower(a.offsets) as from_offset, upper(a.offsets) as until_offset
from lockstep.arrival a join arriving_range r
  on int4range(a.stream_id, a.stream_id, '[]') && int4range(r.stream_id, r.stream_id, '[]')
 and a.offsets && int8range(r.from_offset, r.until_offset)
where a.target = %(target)s order by a.token desc limit 1

-- name: forget_arrivals
-- What lies wholly on these offsets makes room; a longer one, of a batch that was given up, still tells of its rest.
delete from lockstep.arrival a using arriving_range r
where a.target = %(target)s and int4range(a.stream_id, a.stream_id, '[]') && int4range(r.stream_id, r.stream_id, '[]')
  and a.offsets <@ int8range(r.from_offset, r.until_offset)

-- name: note_arrivals
-- From now on these offsets' results are this attempt's.
insert into lockstep.arrival (target, stream_id, offsets, batch_id, token)
select %(target)s, r.stream_id, int8range(r.from_offset, r.until_offset), %(batch_id)s, %(token)s from arriving_range r

-- name: note_streams
-- Which epoch each stream is of: what orders the records of a key, where there is no ledger to ask. Streams follow their pipeline to
-- its name of today.
insert into lockstep.stream as k (stream_id, pipeline, epoch)
select s.stream_id, %(pipeline)s, s.epoch from unnest(%(streams)s::int[], %(epochs)s::int[]) as s (stream_id, epoch)
on conflict (stream_id) do update set pipeline = excluded.pipeline
where k.pipeline = any(%(former)s::text[]) and k.epoch = excluded.epoch

-- name: foreign_stream
-- A stream of this number that is another ledger's.
select k.stream_id, k.pipeline from lockstep.stream k
join unnest(%(streams)s::int[], %(epochs)s::int[]) as s (stream_id, epoch) using (stream_id)
where (k.pipeline, k.epoch) <> (%(pipeline)s, s.epoch) limit 1

-- name: make_rows
-- The rows on their arrival, with the types that they were staged with.
create temp table arriving ({columns}) on commit drop

-- name: fill_rows
-- As they were taken out of the staging table.
copy pg_temp.arriving ({columns}) from stdin (format binary)

-- name: withdraw_unbrought
-- What an earlier delivery has left on these offsets, and this one does not bring.
delete from {target} t using arriving_range r
where t._stream = r.stream_id and t._offset >= r.from_offset and t._offset < r.until_offset and not exists (
    select 1 from pg_temp.arriving n where (n._stream, n._offset, n._ordinal) = (t._stream, t._offset, t._ordinal))

-- name: put_rows
-- By natural key: the first time a row comes in, and each further time over itself.
with put as (
    insert into {target} ({columns}, _stream, _offset, _ordinal, _batch)
    select {staged}, t._stream, t._offset, t._ordinal, %(batch_id)s from {rows} t
    on conflict (_stream, _offset, _ordinal) do update set {assignments}, _batch = excluded._batch
    returning xmax = 0 as is_new)
select count(*) filter (where is_new) as inserted, count(*) filter (where not is_new) as updated from put

-- name: withdraw_rows
-- Every row of these offsets.
delete from {target} t using arriving_range r
where t._stream = r.stream_id and t._offset >= r.from_offset and t._offset < r.until_offset

-- name: withdraw_tombstones
-- Deletions by a record of these offsets.
delete from lockstep.tombstone d using arriving_range r
where d.target = %(target)s and d.stream_id = r.stream_id and d."offset" >= r.from_offset and d."offset" < r.until_offset
