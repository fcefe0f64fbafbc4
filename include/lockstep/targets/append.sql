-- name: append_rows
-- Every staged row of a winning task becomes a row; the unique index refuses any second one.
insert into {target} ({columns}, _stream, _offset, _ordinal, _batch)
select {staged}, t._stream, t._offset, t._ordinal, %(batch_id)s
from {rows} t

-- name: takes_copies
-- Whether COPY fills the table as INSERT would: rules and policies know only INSERT.
select relkind in ('r', 'p') and not relrowsecurity and not relhasrules as does from pg_class where oid = to_regclass(%(table)s)

-- name: copy_rows
-- A range's rows as they come; one of another record is left out, and missed in the count.
copy {target} ({columns}) from stdin with (format binary)
where _stream = {stream_id} and _offset >= {from_offset} and _offset < {until_offset}

-- name: withdraw_rows
-- The rows of the segments that a replay replaces, found by where they were read.
delete from {target} t using lockstep.claim k
where k.batch_id = %(batch_id)s and k.expects = 'batch' and (%(stream_id)s is null or k.stream_id = %(stream_id)s)
  and t._stream = k.stream_id and t._offset >= lower(k.offsets) and t._offset < upper(k.offsets) {of_batches}

-- name: replaced_batches
-- The batches whose rows a replay replaces.
select distinct k.expects_batch as batch_id from lockstep.claim k
where k.batch_id = %(batch_id)s and k.expects = 'batch' and (%(stream_id)s is null or k.stream_id = %(stream_id)s)

-- name: of_batches
-- Rows of these batches alone: named as values, they spare Postgres the other partitions.
and t._batch = k.expects_batch and t._batch = any({batches}::bigint[])
