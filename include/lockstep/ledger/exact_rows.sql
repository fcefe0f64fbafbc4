-- name: decimal_columns
-- The columns of a table, a view or a temporary table whose values are decimals.
select attname as name from pg_attribute
where attrelid = to_regclass(%(table)s) and atttypid = 'numeric'::regtype and attnum > 0 and not attisdropped
