-- name: new_columns
-- The columns of a table with a feed that its images lack. An author may look, too, who may not read the images.
select a.attname as name, format_type(a.atttypid, a.atttypmod) as type
from pg_class c join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = to_regclass(%(target)s) and a.attnum > 0 and not a.attisdropped
where n.nspname = %(schema)s and c.relname = %(images)s and has_column_privilege(a.attrelid, a.attnum, 'select') and not exists (
    select from pg_attribute i where i.attrelid = c.oid and i.attname = a.attname and not i.attisdropped)
order by a.attnum

-- name: is_filled
-- A default of the new column, or an expression, has given rows a value.
select exists (select from {target} where {column} is not null) as is_filled
