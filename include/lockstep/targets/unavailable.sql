-- name: open_columns
-- The columns that the newest record of some key leaves open.
select distinct unnest(n._unavailable) as name from newest n where not n._deleted order by name

-- name: first_marked
-- The first record that leaves this column open.
-- Another store knows a stream's number alone.
select coalesce(to_jsonb(s.*) ->> 'topic' || '-' || (to_jsonb(s.*) ->> 'partition'), 'stream ' || s.stream_id) as place, n._offset as "offset"
from newest n join lockstep.stream s on s.stream_id = n._stream
where %(column)s = any(n._unavailable) and not n._deleted order by n._stream, n._offset limit 1

-- name: fill_from_batch
-- The value of the newest older record of the key in this batch that has one. A deletion has one, which is none.
with said as (
    select distinct on ({keys}) * from (
        select {staged_keys}, t.{column}::{type} as "Said", coalesce(t._deleted, false) as "Gone", s.epoch as "Epoch",
            t._offset, t._stream, t._ordinal{staged_order}
        from {rows} t join lockstep.stream s on s.stream_id = t._stream{before_newest}
        where not %(column)s = any(string_to_array(coalesce(t._unavailable, ''), ','))) older
    order by {keys}, {order} "Epoch" desc, _offset desc, _stream desc, _ordinal desc),
filled as (
    update newest n set {column} = case when t."Gone" then null else t."Said" end,
        _unavailable = array_remove(n._unavailable, %(column)s)
    from said t where {same_key} and %(column)s = any(n._unavailable) and not n._deleted
    returning t."Gone")
select count(*) filter (where "Gone") as lost from filled

-- name: fill_from_target
-- The value of the row that is there. Rows of newer records are out of the way by now.
update newest n set {column} = t.{column}, _unavailable = array_remove(n._unavailable, %(column)s)
from {target} t where {same_key} and %(column)s = any(n._unavailable) and not n._deleted

-- name: has_withdrawn
-- Whether a replay has taken rows out before.
select to_regclass('pg_temp.withdrawn') is not null as yes

-- name: fill_from_withdrawn
-- The value of the row that the replay has taken out, unless a newer record had made it.
update newest n set {column} = t.{column}, _unavailable = array_remove(n._unavailable, %(column)s)
from withdrawn t join lockstep.stream s on s.stream_id = t._stream
where {same_key} and %(column)s = any(n._unavailable) and not n._deleted and not {older}

-- name: left_open
-- Values that nothing has: they become null, and are counted.
select coalesce(sum(cardinality(n._unavailable)), 0)::int as lost from newest n where not n._deleted

-- name: forget_withdrawn
-- The next target of the same transaction has rows of its own.
drop table if exists pg_temp.withdrawn
