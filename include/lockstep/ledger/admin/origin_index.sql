-- name: lacks_index
-- Whether a table has no index that finds rows by the record that they come from. No row: it is no table.
select not exists (
    select from pg_index i join pg_class x on x.oid = i.indexrelid join pg_am m on m.oid = x.relam
    where i.indrelid = c.oid and i.indisvalid and i.indpred is null and m.amname = 'btree'
      and i.indkey[0] = (select a.attnum from pg_attribute a where a.attrelid = c.oid and a.attname = '_stream')
      and i.indkey[1] = (select a.attnum from pg_attribute a where a.attrelid = c.oid and a.attname = '_offset')) as lacks,
    pg_has_role(current_user, c.relowner, 'USAGE') as is_ours
from pg_class c where c.oid = to_regclass(%(table)s) and c.relkind in ('r', 'p')
  and 2 = (select count(*) from pg_attribute a where a.attrelid = c.oid and a.attname in ('_stream', '_offset'))

-- name: is_empty
-- Whether the table has no row.
select not exists (select from {table}) as yes

-- name: create_index
-- Lineage, a preview and a replay find a row of a keyed table by the record that it comes from.
create index if not exists {index} on {table} (_stream, _offset)
