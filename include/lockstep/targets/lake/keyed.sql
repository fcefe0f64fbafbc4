-- name: staged_keys
-- The keys of staged rows.
select {columns} from {rows} t

-- name: key_copy
-- One row per key, as in a table of the database.
create unique index on {copy} ({keys});
analyze {copy}

-- name: state
-- The copy as one text: its rows in any order.
select count(*) || ' ' || coalesce(sum(hashtextextended((t.*)::text, 0)), 0) as state from {copy} t

-- name: rows_of_copy
-- The rows that stay, those of near keys together.
select {columns} from {copy} t order by {keys}
