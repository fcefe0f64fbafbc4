-- name: make_room
-- What another Postgres needs beside the results, so that everything about a delivery is in its one transaction.
create schema if not exists lockstep;
create table if not exists lockstep.stream (stream_id int primary key, pipeline text not null, epoch int not null);
create table if not exists lockstep.tombstone (
    target text not null, key jsonb not null, stream_id int not null, "offset" bigint not null, primary key (target, key));
create table if not exists lockstep.arrival (
    target text not null, stream_id int not null, offsets int8range not null, batch_id bigint not null, token bigint not null,
    at timestamptz not null default clock_timestamp(), primary key (target, stream_id, offsets));
create index if not exists arrival_order on lockstep.arrival using gist (int4range(stream_id, stream_id, '[]'), offsets)

-- name: is_a_ledger
-- Whether this database has a ledger of its own, which results must not be mixed with.
select to_regclass('lockstep.migration') is not null as yes

-- name: has_room
-- Whether `lockstep migrate NAME` was here.
select to_regclass('lockstep.arrival') is not null as yes

-- name: seen
-- What was brought, by batch and stream: as deliveries noted it, and as the rows of other batches tell.
select stream_id, lower(offsets) as from_offset, upper(offsets) as until_offset, batch_id, token
from lockstep.arrival where target = %(target)s
union all
select t._stream, min(t._offset), max(t._offset) + 1, t._batch, null from {target} t
where not exists (
    select from lockstep.arrival a where a.target = %(target)s and a.stream_id = t._stream and a.batch_id = t._batch)
group by t._stream, t._batch
order by 1, 2, 4

-- name: count_ranges
-- What lies on each range: rows, offsets, and their digest from the range's beginning.
select r.stream_id, r.from_offset, r.until_offset, coalesce(c.rows, 0) as rows, coalesce(c.records, 0) as records,
    coalesce(c.sum, 0) as sum, coalesce(c.squares, 0) as squares
from unnest(%(streams)s::int[], %(froms)s::bigint[], %(untils)s::bigint[]) as r (stream_id, from_offset, until_offset)
left join lateral (
    select sum(o.rows)::bigint as rows, count(*) as records,
        sum((o._offset - r.from_offset)::numeric) as sum, sum((o._offset - r.from_offset)::numeric ^ 2) as squares
    from (select t._offset, count(*) as rows from {target} t
          where t._stream = r.stream_id and t._offset >= r.from_offset and t._offset < r.until_offset group by 1) o) c on true

-- name: strange_row
-- A row of these streams whose batch does not own its offset.
with owner as (
    select * from unnest(%(batches)s::bigint[], %(streams)s::int[], %(froms)s::bigint[], %(untils)s::bigint[])
        as o (batch_id, stream_id, from_offset, until_offset))
select t._stream, t._offset, t._batch from {target} t
left join owner o on o.batch_id = t._batch and o.stream_id = t._stream
where t._stream = any(%(of_pipeline)s) and not coalesce(t._offset >= o.from_offset and t._offset < o.until_offset, false)
limit 1

-- name: offsets_of_stream
-- Every row's offset, in order.
select _offset from {target} where _stream = %(stream_id)s order by 1

-- name: rows_of_record
-- The rows that one record became.
select * from {target} where _stream = %(stream_id)s and _offset = %(offset)s order by _ordinal

-- name: may_write
-- Whether this login may do what a delivery does.
select has_table_privilege(to_regclass(%(table)s), 'select') and has_table_privilege(to_regclass(%(table)s), 'insert')
    and has_table_privilege(to_regclass(%(table)s), 'update') and has_table_privilege(to_regclass(%(table)s), 'delete') as granted
