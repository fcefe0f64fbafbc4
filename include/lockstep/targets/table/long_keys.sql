-- name: indexed
-- The staged texts and bytes that an index of the table holds, or may hold in an expression.
select s.attname as name from pg_attribute s
where s.attrelid = to_regclass(%(staging)s) and s.attnum > 0 and not s.attisdropped and s.atttypid in ('text'::regtype, 'bytea'::regtype)
  and s.attname = any(%(names)s) and (%(names_keys)s and s.attname = any(%(keys)s) or exists (
    select from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attname = s.attname
    where i.indrelid = to_regclass(%(table)s) and (a.attnum = any(i.indkey::int2[]) or 0 = any(i.indkey::int2[]))))
order by s.attnum

-- name: long_rows
-- The rows whose values could be too long for an index, each with its longest one.
select t._stream as stream_id, t._offset as "offset", t._ordinal as ordinal, t._deleted as deleted, v.name, v.size
from {rows} t cross join lateral (
    select name, size from (values {sizes}) as s (name, size) order by size desc nulls last limit 1) v
where {whole} > %(safe)s order by 1, 2, 3

-- name: make_trial
-- A table of the same columns, which takes nulls and doubles.
create temp table {trial} (
    like {table} including all excluding constraints excluding indexes excluding defaults excluding identity
        excluding statistics excluding comments) on commit drop

-- name: not_null
-- Its columns that would refuse a row for another reason.
select attname as name from pg_attribute where attrelid = to_regclass(%(trial)s) and attnum > 0 and attnotnull and not attisdropped

-- name: take_nulls
-- Other columns than those that are tried stay empty.
alter table {trial} {each}

-- name: indexes
-- What the table's indexes are made of, none of them unique.
select substr(pg_get_indexdef(i.indexrelid), strpos(pg_get_indexdef(i.indexrelid), ' USING ')) as definition
from pg_index i where i.indrelid = to_regclass(%(table)s) order by i.indexrelid

-- name: make_index
-- An index like one of the table's.
create index on {trial}{definition}

-- name: try_rows
-- The index is asked for these rows alone, with their values as the table would hold them.
insert into {trial} ({columns}) select {staged} from {rows} t
join unnest(%(streams)s::int[], %(offsets)s::bigint[], %(ordinals)s::int[]) as v (stream_id, "offset", ordinal)
    on (t._stream, t._offset, t._ordinal) = (v.stream_id, v."offset", v.ordinal)

-- name: try_keys
-- The same for the ledger's memory of keys.
insert into {trial} (target, key) select %(target)s, jsonb_build_array({keys}) from (select {staged}, t._stream, t._offset, t._ordinal from {rows} t) t
join unnest(%(streams)s::int[], %(offsets)s::bigint[], %(ordinals)s::int[]) as v (stream_id, "offset", ordinal)
    on (t._stream, t._offset, t._ordinal) = (v.stream_id, v."offset", v.ordinal)
