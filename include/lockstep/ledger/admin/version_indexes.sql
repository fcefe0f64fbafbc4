-- name: table
-- The table of a history, and whether this session may change it. No row: it has no such columns, or is not there.
select pg_has_role(current_user, c.relowner, 'USAGE') as is_ours
from pg_class c where c.oid = to_regclass(%(table)s) and c.relkind = 'r'
  and 3 = (select count(*) from pg_attribute a where a.attrelid = c.oid and a.attname in ('valid_from', 'valid_until', '_deleted'))

-- name: is_empty
-- Whether the table has no row.
select not exists (select from {table}) as yes

-- name: create_by_key
-- A commit finds the versions around a new one, and a reader the version of a moment.
create index if not exists {by_key} on {table} ({keys}, valid_from)

-- name: create_current
-- A key has one current version, and a reader finds it.
create unique index if not exists {current} on {table} ({keys}) where valid_until is null

-- name: has_guard
-- Whether the table has a constraint of this name.
select from pg_constraint where conrelid = to_regclass(%(table)s) and conname = %(name)s

-- name: add_guard
-- A version ends when it begins, or later, and a deletion is valid for no time.
alter table {table} add constraint {guard}
    check (valid_until >= valid_from and (not _deleted or valid_until = valid_from and valid_until is not null))

-- name: current_keys
-- The column sets that a unique index keeps unique among current versions.
select array(select a.attname::text from pg_attribute a where a.attrelid = i.indrelid and a.attnum = any(i.indkey)) as columns
from pg_index i where i.indrelid = to_regclass(%(table)s) and i.indisunique and i.indisvalid and i.indexprs is null
  and pg_get_expr(i.indpred, i.indrelid) = '(valid_until IS NULL)'
