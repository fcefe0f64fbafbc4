-- name: rows_out
-- A target's rows, as COPY carries them to another database.
copy (select {columns} from {target} t) to stdout

-- name: make_before
-- A place for the other database's rows.
create temp table {before} ({typed}) on commit drop

-- name: rows_in
-- The other database's rows.
copy {before} from stdin

-- name: rows_here
-- This database's rows.
select {columns} from {target} t
