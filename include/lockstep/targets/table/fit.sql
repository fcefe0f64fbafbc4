-- name: target_columns
-- The target's columns with their types as Postgres writes them; no row: there is no such table.
select a.attname as name, format_type(a.atttypid, a.atttypmod) as type, a.atttypid as type_id,
    a.attnotnull as not_null,
    a.attcollation <> (select y.typcollation from pg_type y where y.oid = a.atttypid) as is_collated,
    a.attnotnull and not a.atthasdef and a.attidentity = '' as must_be_given
from pg_attribute a where a.attrelid = to_regclass(%(table)s) and a.attnum > 0 and not a.attisdropped order by a.attnum

-- name: unique_keys
-- The column sets that a unique index of the target holds unique, whatever the rows.
select array(select a.attname::text from pg_attribute a where a.attrelid = i.indrelid and a.attnum = any(i.indkey)) as columns
from pg_index i where i.indrelid = to_regclass(%(table)s) and i.indisunique and i.indpred is null and i.indexprs is null

-- name: loose_keys
-- The key columns for which Postgres takes different texts as one: by their type or collation, or by that of a unique index.
select a.attname as name, null as index from pg_attribute a join pg_type y on y.oid = a.atttypid
left join pg_type base on base.oid = y.typbasetype left join pg_collation c on c.oid = a.attcollation
where a.attrelid = to_regclass(%(table)s) and a.attname = any(%(key)s) and not a.attisdropped
  and ('citext' in (y.typname, base.typname) or not c.collisdeterministic)
union all
select a.attname, i.indexrelid::regclass::text from pg_index i
cross join lateral unnest(i.indkey::int2[], i.indcollation::oid[]) u (attnum, ordered_by)
join pg_collation c on c.oid = u.ordered_by and not c.collisdeterministic
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = u.attnum and a.attcollation <> c.oid
where i.indrelid = to_regclass(%(table)s) and i.indisunique and a.attname = any(%(key)s)
order by 2 nulls first, 1

-- name: can_hold
-- Whether a value of one type may be assigned to a column of another.
select %(staged)s::regtype::oid = %(held)s::oid or exists (
    select 1 from pg_cast where castsource = %(staged)s::regtype and casttarget = %(held)s::oid and castcontext in ('a', 'i'))

-- name: may_publish
-- Whether who publishes was granted what it takes.
select has_table_privilege(%(role)s, to_regclass(%(table)s), 'select')
    and has_table_privilege(%(role)s, to_regclass(%(table)s), 'insert') as granted
