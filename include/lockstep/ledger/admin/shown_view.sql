-- name: rows_behind
-- The table behind a view that leaves hidden batches out, as schema.table.
select n.nspname || '.' || c.relname as rows_table
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.oid = lockstep.rows_behind(to_regclass(%(table)s))

-- name: to_draw
-- A table that waits for its view: there is one of the view's name with _rows behind it, and no table of the view's name.
select to_regclass(%(table)s) is null as is_new, exists (
        select from lockstep.target_owner o where o.store = '' and o.target = %(rows_table)s) as is_owned,
    exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = '_batch' and not a.attnotnull) as may_lack_batch,
    array(select a.attname::text from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum) as columns,
    (select string_agg(format('%%I = %%L', o.option_name, o.option_value), ', ')
        from pg_class v, pg_options_to_table(v.reloptions) o where v.oid = to_regclass(%(table)s)) as options
from pg_class c
where c.oid = to_regclass(%(rows_table)s) and c.relkind = 'r'
  and (to_regclass(%(table)s) is null or lockstep.rows_behind(to_regclass(%(table)s)) = c.oid)

-- name: draw
-- The view that leaves hidden batches out. Postgres looks them up in a hash table, in each parallel worker.
create or replace view {view} {options} as
select {columns} from {rows_table} t
where t._batch not in (select h.batch_id from lockstep.hidden_batch h)

-- name: grant_rows
-- Tasks copy into the table and look at what they copied; nobody else of a run reads rows that are hidden.
revoke all on {rows_table} from lockstep_committer, lockstep_planner, lockstep_stager, lockstep_reader;
grant select, insert, delete on {rows_table} to lockstep_partition

-- name: other_readers
-- Who may read hidden rows, beside the owner and the tasks.
select string_agg(coalesce(r.rolname::text, 'public'), ', ' order by r.rolname) as readers
from pg_class c cross join lateral aclexplode(c.relacl) a left join pg_roles r on r.oid = a.grantee
where c.oid = to_regclass(%(rows_table)s) and a.privilege_type = 'SELECT' and a.grantee <> c.relowner
  and r.rolname is distinct from 'lockstep_partition'
