-- name: columns
-- The columns of a table, a view or a temporary table: which hold decimals, and which documents of JSON, also by a domain.
select a.attname as name, a.atttypid = 'numeric'::regtype as is_decimal,
    coalesce(nullif(y.typbasetype, 0), y.oid) in ('json'::regtype, 'jsonb'::regtype) as is_document
from pg_attribute a join pg_type y on y.oid = a.atttypid
where a.attrelid = to_regclass(%(table)s) and a.attnum > 0 and not a.attisdropped order by a.attnum
