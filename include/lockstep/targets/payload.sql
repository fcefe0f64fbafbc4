-- name: staged_columns
-- The decoded columns of an attempt's staging table, with their types as Postgres writes them.
select a.attname as name, format_type(a.atttypid, a.atttypmod) as type from pg_attribute a
where a.attrelid = to_regclass(%(table)s) and a.attnum > 0 and not a.attisdropped and not a.attname = any(%(reserved)s)
order by a.attnum

-- name: way_back
-- The types over which a value of the target's type can be cast to the staged one: at once, or by way of a numeric (money).
select case when to_regtype(%(held)s) = to_regtype(%(staged)s) or exists (
        select from pg_cast where castsource = to_regtype(%(held)s) and casttarget = to_regtype(%(staged)s)) then %(held)s
    when exists (select from pg_cast where castsource = to_regtype(%(held)s) and casttarget = 'numeric'::regtype)
        and exists (select from pg_cast where castsource = 'numeric'::regtype and casttarget = to_regtype(%(staged)s))
    then 'numeric' end as over

-- name: changes
-- A value that does not come back from the target's type as it went in.
t.{column}::{held}::{over}::{staged} is distinct from t.{column}

-- name: loses
-- A value that does not come back at all.
t.{column} is not null

-- name: first_changed
-- The first record with a value that the target's column would change. Another store knows a stream's number alone.
select coalesce(to_jsonb(s.*) ->> 'topic' || '-' || (to_jsonb(s.*) ->> 'partition'), 'stream ' || t._stream) as place,
    t._offset as "offset", case {named} end as name
from {rows} t left join lockstep.stream s on s.stream_id = t._stream
where {any_of} order by t._stream, t._offset, t._ordinal limit 1
