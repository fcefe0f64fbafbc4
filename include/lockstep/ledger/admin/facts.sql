-- name: server
-- Who we are, where, and on which version; a standby says so.
select current_user as login, current_database() as database, current_setting('server_version_num')::int as version,
    pg_is_in_recovery() as standby

-- name: settings
-- What is in force for this session and where it was set; a session's own `set` is not among it.
select name, reset_val as value, source from pg_settings where name = any(%(names)s::text[])

-- name: connections
-- How many connections this login may have, by the nearest of three limits, and how many of those are taken.
with busy as (
    select count(*) as of_server, count(*) filter (where datname = current_database()) as of_database,
        count(*) filter (where usename = current_user) as of_login
    from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()),
limits as (
    select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as allowed,
        of_server as used from busy
    union all
    select datconnlimit, of_database from pg_database, busy where datname = current_database() and datconnlimit >= 0
    union all
    select rolconnlimit, of_login from pg_roles, busy where rolname = current_user and rolconnlimit >= 0)
select allowed, used from limits order by allowed - used, allowed limit 1

-- name: longest_idle
-- For how many seconds the longest transaction of this database has been waiting for its client; others' may be hidden.
select extract(epoch from max(clock_timestamp() - state_change))::float8 as seconds
from pg_stat_activity
where datname = current_database() and starts_with(state, 'idle in transaction') and pid <> pg_backend_pid()

-- name: roles
-- Which roles exist, and to which of them this login may `set role`: since Postgres 16 a membership may lack that.
select rolname as role,
    pg_has_role(current_user, oid, case when current_setting('server_version_num')::int >= 160000 then 'SET' else 'MEMBER' end)
    as may_set
from pg_roles where rolname = any(%(roles)s::text[])

-- name: excess
-- What this login may beyond a run: its own attributes, the owner's role, and roles that reach the server's files.
select unnest(array_remove(array[
    case when rolsuper then 'superuser' end,
    case when rolcreaterole then 'createrole' end,
    case when rolcreatedb then 'createdb' end,
    case when rolreplication then 'replication' end,
    case when rolbypassrls then 'bypassrls' end,
    case when (select pg_get_userbyid(datdba) = current_user from pg_database where datname = current_database())
        then 'owner of the database' end], null)) as what
from pg_roles where rolname = current_user
union all
select 'member of ' || rolname from pg_roles
where rolname in ('lockstep_owner', 'lockstep_targets', 'pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files', 'pg_write_all_data')
  and pg_has_role(current_user, oid, 'MEMBER') and not (select rolsuper from pg_roles where rolname = current_user)
  and (rolname <> 'lockstep_targets' or not pg_has_role(current_user, 'lockstep_owner', 'MEMBER'))  -- said with the owner

-- name: lacking
-- Which of these grants on tables that exist are not there, and who may not even enter the schema.
select g.role, g.privilege, g.name
from unnest(%(grantees)s::text[], %(privileges)s::text[], %(tables)s::text[]) as g (role, privilege, name)
join pg_roles r on r.rolname = g.role
join pg_class c on c.relname = g.name join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'lockstep'
where not has_table_privilege(r.oid, c.oid, g.privilege)
union all
select r.rolname, 'USAGE', '' from pg_roles r join pg_namespace n on n.nspname = 'lockstep'
where r.rolname = any(%(grantees)s::text[]) and not has_schema_privilege(r.oid, n.oid, 'USAGE')

-- name: may_read_migrations
-- A role of ours that may look at what was applied.
select r.rolname as role from pg_roles r
join pg_class c on c.relname = 'migration' join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'lockstep'
where r.rolname = any(%(roles)s::text[])
  and has_schema_privilege(r.oid, n.oid, 'USAGE') and has_table_privilege(r.oid, c.oid, 'SELECT')
order by r.rolname limit 1

-- name: rewriting
-- Who may change rows of history, or a column of them; what everybody may is not said again of each role.
select distinct case
        when has_table_privilege('public', c.oid, p.privilege)
            or p.privilege = 'UPDATE' and has_any_column_privilege('public', c.oid, p.privilege) then 'public'
        else r.rolname::text end as role,
    p.privilege, c.relname as name
from pg_roles r
cross join (values ('UPDATE'), ('DELETE'), ('TRUNCATE')) as p (privilege)
join pg_class c on c.relname = any(%(history)s::text[])
join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'lockstep'
where r.rolname = any(%(roles)s::text[])
  and (has_table_privilege(r.oid, c.oid, p.privilege)
       or p.privilege = 'UPDATE' and has_any_column_privilege(r.oid, c.oid, p.privilege))

-- name: target
-- A pipeline's table, or the view before it: whether its rows are logged, whether the committer may publish to it, how many
-- partitions it has, how many of them are parts, who may read rows that the view hides, and whether workers cannot add them up.
select coalesce(t.relpersistence, c.relpersistence) <> 'u' as logged,
    (select count(*) from pg_partition_tree(c.oid) p where p.isleaf and p.level > 0) as partitions,
    (select count(*) from pg_partition_tree(c.oid) p where p.isleaf and p.level > 1) as parts,
    coalesce((
        select bool_and(has_table_privilege(r.oid, c.oid, p)) from unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE']) as p)
        and has_schema_privilege(r.oid, n.oid, 'USAGE'), false) as writable,
    (select string_agg(coalesce(g.rolname::text, 'public'), ', ' order by g.rolname)
        from aclexplode(t.relacl) a left join pg_roles g on g.oid = a.grantee
        where a.privilege_type = 'SELECT' and a.grantee <> t.relowner and g.rolname is distinct from 'lockstep_partition') as readers,
    t.oid is not null and pg_get_viewdef(c.oid) ~ '<> ALL \(ARRAY\(' as is_older_view
from pg_class c join pg_namespace n on n.oid = c.relnamespace
left join pg_class t on c.relkind = 'v' and t.relnamespace = c.relnamespace and t.relname = c.relname || '_rows' and t.relkind = 'r'
left join pg_roles r on r.rolname = 'lockstep_committer'
where n.nspname = %(schema)s and c.relname = %(name)s and (c.relkind in ('r', 'p') or t.oid is not null)

-- name: flow
-- What the newest committed batches read of each stream: bytes and records, and over how much of the log's time.
with newest as (
    select batch_id from lockstep.batch where pipeline = %(pipeline)s and lane = 'live' and state = 'committed'
    order by batch_id desc limit 20)
select r.stream_id, sum(r.bytes)::float8 as bytes, sum(r.delivered)::float8 as records,
    extract(epoch from max(r.max_timestamp) - min(r.min_timestamp))::float8 as seconds
from newest join lockstep.commit c using (batch_id)
join lockstep.result r on r.batch_id = c.batch_id and r.token = c.token and r.stream_id = c.stream_id
group by r.stream_id

-- name: past_batches
-- How many offsets the newest committed batches of the live lane had, and how long the attempt that committed each took.
select (select sum(upper(g.offsets) - lower(g.offsets)) from lockstep.batch_range g where g.batch_id = b.batch_id)::float8 as offsets,
    extract(epoch from a.closed_at - a.opened_at)::float8 as seconds
from lockstep.batch b join lockstep.attempt a on a.batch_id = b.batch_id and a.token = b.token
where b.batch_id in (
    select batch_id from lockstep.batch where pipeline = %(pipeline)s and lane = 'live' and state = 'committed'
    order by batch_id desc limit 20)
order by b.batch_id
