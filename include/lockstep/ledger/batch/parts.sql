-- name: make_part
-- A table of the target's columns for one range, which this transaction fills.
select lockstep.make_part(to_regclass(%(target)s), %(batch_id)s, %(token)s, %(stream_id)s)::text as part

-- name: copy_into
-- A range's rows, frozen: no vacuum writes them again. One of another record is left out, and missed in the count.
copy {part} ({columns}) from stdin with (format binary, freeze)
where _stream = {stream_id} and _offset >= {from_offset} and _offset < {until_offset}

-- name: close_part
-- Its keys, and nobody fills it any more.
select lockstep.close_part(%(batch_id)s, %(token)s, %(stream_id)s)

-- name: attach_parts
-- The parts that the attempt's tasks have made become the batch's partition.
select lockstep.attach_parts(to_regclass(%(target)s), %(batch_id)s, %(token)s)
where exists (select from lockstep.part where batch_id = %(batch_id)s and token = %(token)s)

-- name: of_parts
-- The tables by batch with the number of their parts, and of each the batches' partitions that consist of parts, oldest first.
select t.oid::regclass::text as target, sum(n.parts)::int as parts,
    array_agg(w.oid::regclass::text order by b.batch_id) as partitions, array_agg(b.batch_id order by b.batch_id) as batches,
    array_agg(n.parts order by b.batch_id) as each
from pg_class t join pg_inherits i on i.inhparent = t.oid join pg_class w on w.oid = i.inhrelid and w.relkind = 'p'
cross join lateral (select count(*) as parts from pg_inherits p where p.inhparent = w.oid) n
cross join lateral (select lockstep.batch_of_parts(t.oid, w.oid) as batch_id) b
where t.relkind = 'p' and lockstep.is_by_batch(t.oid) and b.batch_id is not null group by t.oid order by t.oid

-- name: begin_merge
-- A table for the rows of all parts of a batch.
select lockstep.begin_merge(%(target)s::regclass, %(whole)s::regclass)::text as merged

-- name: rows_of_batch
-- The batch's rows as they stand.
copy (select {columns} from {target} where _batch = {batch_id}) to stdout with (format binary)

-- name: fill_merged
-- The same rows, frozen: a snapshot that has seen the parts sees them, too.
copy {merged} ({columns}) from stdin with (format binary, freeze)

-- name: copied_columns
-- The columns of a table.
select array_agg(attname::text order by attnum) as columns from pg_attribute
where attrelid = %(merged)s::regclass and attnum > 0 and not attisdropped

-- name: end_merge
-- That table in place of the parts; whether it has all of the batch's rows.
select lockstep.end_merge(%(target)s::regclass, %(whole)s::regclass, %(merged)s::regclass) as does
