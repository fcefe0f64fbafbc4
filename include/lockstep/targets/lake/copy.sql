-- name: make_copy
-- A lake table as a temporary one of the same name, for this transaction.
create temp table {copy} ({columns}) on commit drop

-- name: index_copy
-- Rows are looked up by where they were read.
create index on {copy} (_stream, _offset, _ordinal);
analyze {copy}

-- name: sums
-- The offsets of each batch and stream, as the files were summed when they were read back.
select _batch as batch_id, _stream as stream_id, count(*) as rows, sum(_offset) as total,
    sum(_offset::numeric * _offset) as squares, min(_offset) as first_offset, max(_offset) as last_offset
from {copy} group by 1, 2
