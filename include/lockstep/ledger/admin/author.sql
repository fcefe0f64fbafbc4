-- name: make_login
-- A login for one run of target.sql: it has the targets' role and nothing else, and it ends within the hour. The server is
-- given no password to keep in its log, but what a password is compared with.
create role {login} login noinherit connection limit 1 password {password} valid until {until};
grant lockstep_targets to {login};
grant {login} to current_user

-- name: name_of_login
-- A name that no other run has, with the database that it is for, and the time until which it is let in.
select 'lockstep_target_' || oid || '_' || replace(gen_random_uuid()::text, '-', '') as login,
    (clock_timestamp() + interval '1 hour')::text as until
from pg_database where datname = current_database()

-- name: shut_out
-- Whoever is connected as this login, or would be, is not any more.
alter role {login} nologin;
select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = {name}

-- name: drop_login
-- What it made is the targets' owner's, and it is gone.
reassign owned by {login} to lockstep_targets;
drop owned by {login};
drop role {login}

-- name: left_logins
-- Logins of runs that died before they could drop theirs.
select rolname as login from pg_roles where starts_with(rolname, 'lockstep_target_') and rolvaliduntil < clock_timestamp()

-- name: whose_session
-- Whom the other connection logged in as: has he the targets' role, and is there more that he may take on?
select session_user as login, pg_has_role(session_user, 'lockstep_targets', 'MEMBER') as targets,
    (select string_agg(what, ', ') from (
        select unnest(array_remove(array[
            case when rolsuper then 'a superuser' end, case when rolcreaterole then 'any role (createrole)' end,
            case when rolreplication then 'a replica' end, case when rolbypassrls then 'free of policies' end], null)) as what
        from pg_roles where rolname = session_user
        union all
        select rolname from pg_roles
        where rolname in ('lockstep_owner', 'lockstep_planner', 'lockstep_stager', 'lockstep_committer', 'lockstep_partition',
            'lockstep_reader', 'lockstep_executor', 'lockstep_judge', 'pg_read_all_data', 'pg_write_all_data', 'pg_execute_server_program',
            'pg_read_server_files', 'pg_write_server_files')
          and pg_has_role(session_user, oid, 'MEMBER')) may) as more,
    current_database() as database, pg_postmaster_start_time()::text as server

-- name: one_at_a_time
-- One migration of a target at a time in this database, until the transaction ends.
select pg_advisory_xact_lock(hashtext('lockstep.migrate_target'))

-- name: run_text
-- The text, in a block of its own: there it can end no transaction.
do $$ begin execute current_setting('lockstep.target_sql'); end $$

-- name: own_names
-- From here on no name is the author's.
set local search_path = pg_catalog, pg_temp

-- name: waits_for_commit
-- What would run code of the author's at COMMIT, behind every look at what he made.
select t.tgrelid::regclass::text as relation, t.tgname as name from pg_trigger t join pg_class c on c.oid = t.tgrelid
where not t.tgisinternal and t.tgdeferrable and not pg_has_role(c.relowner, 'lockstep_owner', 'MEMBER')
union all
select k.conrelid::regclass::text, k.conname from pg_constraint k join pg_class c on c.oid = k.conrelid
where k.contype = 'x' and k.condeferrable and not pg_has_role(c.relowner, 'lockstep_owner', 'MEMBER')
union all
select 'cursor', name from pg_cursors where is_holdable

-- name: settle
-- What waits for COMMIT is done now, where its refusal is told.
set constraints all immediate

-- name: take_over
-- A table and its partitions that an earlier version made under the ledger's owner: who owns them, in which schema.
with recursive part(oid) as (
    select to_regclass(%(table)s)::oid union select i.inhrelid from pg_inherits i join part on i.inhparent = part.oid)
select n.nspname as schema, c.relname as name from part join pg_class c using (oid)
join pg_namespace n on n.oid = c.relnamespace
where c.relowner = 'lockstep_owner'::regrole and lockstep.rows_behind(c.oid) is null  -- such a view is the owner's
order by c.oid

-- name: give_to_targets
-- The targets' owner's from now on.
alter table {table} owner to lockstep_targets

-- name: written_by_runs
-- The tables of this database that pipelines write.
select distinct target from lockstep.target_owner where store = ''

-- name: foreign_code
-- Code that a run would execute as itself when it writes these tables, or reads them, and that its operator has not made:
-- functions of triggers, defaults, constraints, indexes, policies and partition keys, rules, and types with code behind them.
-- Written by a run are also the children of a table, and tables whose foreign keys follow it. A member of lockstep_owner, and
-- a superuser, is trusted: he may change the ledger without any trick. A few functions of Postgres run what they are given.
with recursive written(oid) as (
    select to_regclass(given)::oid from unnest(%(tables)s::text[]) given where to_regclass(given) is not null
    union  -- the table behind a view, or one that waits for its view
    select to_regclass(given || '_rows')::oid from unnest(%(tables)s::text[]) given where to_regclass(given || '_rows') is not null
    union
    select next.oid from written w cross join lateral (
        select i.inhrelid as oid from pg_inherits i where i.inhparent = w.oid
        union all
        select k.conrelid from pg_constraint k where k.contype = 'f' and k.confrelid = w.oid) next),
stranger(oid) as (select r.oid from pg_roles r where not pg_has_role(r.oid, 'lockstep_owner', 'MEMBER')),
expression(relation, what, tree) as (
    select d.adrelid, 'default of ' || a.attname, d.adbin::text
    from pg_attrdef d join written w on w.oid = d.adrelid join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
    union all
    select k.conrelid, 'constraint ' || k.conname, k.conbin::text
    from pg_constraint k join written w on w.oid = k.conrelid where k.conbin is not null
    union all
    select x.indrelid, 'index ' || i.relname, concat(x.indexprs::text, x.indpred::text)
    from pg_index x join written w on w.oid = x.indrelid join pg_class i on i.oid = x.indexrelid
    union all
    select p.polrelid, 'policy ' || p.polname, concat(p.polqual::text, p.polwithcheck::text)
    from pg_policy p join written w on w.oid = p.polrelid
    union all
    select t.tgrelid, 'trigger ' || t.tgname, t.tgqual::text
    from pg_trigger t join written w on w.oid = t.tgrelid where not t.tgisinternal and t.tgqual is not null
    union all
    select p.partrelid, 'partition key', p.partexprs::text
    from pg_partitioned_table p join written w on w.oid = p.partrelid where p.partexprs is not null),
called(relation, what, routine) as (
    select e.relation, e.what, m[1]::oid
    from expression e cross join lateral regexp_matches(e.tree, ':(?:funcid|opfuncid|aggfnoid|winfnoid) (\d+)', 'g') m
    union
    select e.relation, e.what, o.oprcode::oid
    from expression e cross join lateral regexp_matches(e.tree, ':opno (\d+)', 'g') m join pg_operator o on o.oid = m[1]::oid),
used(relation, what, type) as (
    select a.attrelid, 'column ' || a.attname, a.atttypid
    from pg_attribute a join written w on w.oid = a.attrelid where a.attnum > 0 and not a.attisdropped
    union
    select e.relation, e.what, m[1]::oid
    from expression e cross join lateral regexp_matches(e.tree, ':\w*type(?:id)? (\d+)', 'gi') m),
found(relation, what, runs) as (
    select c.relation, c.what, p.oid::regprocedure::text
    from called c join pg_proc p on p.oid = c.routine
    where p.proowner in (table stranger) or p.pronamespace = 'pg_catalog'::regnamespace and (
        p.proname like '%%to\_xml%%' or p.provolatile = 'v' and p.proname <> all (array[
            'clock_timestamp', 'timeofday', 'random', 'gen_random_uuid', 'uuidv4', 'uuidv7', 'nextval', 'currval', 'lastval',
            'txid_current', 'pg_current_xact_id']))
    union all
    select t.tgrelid, 'trigger ' || t.tgname, p.oid::regprocedure::text
    from pg_trigger t join written w on w.oid = t.tgrelid join pg_proc p on p.oid = t.tgfoid
    where not t.tgisinternal and p.proowner in (table stranger)
    union all
    select e.relation, e.what, 'a query' from expression e where e.tree ~ '\{(SUBLINK|SUBPLAN|QUERY)'
    union all
    select r.ev_class, 'rule ' || r.rulename, 'its statements'
    from pg_rewrite r join written w on w.oid = r.ev_class join pg_class c on c.oid = w.oid
    where r.rulename <> '_RETURN' or c.relowner in (table stranger)
    union all
    select c.oid, 'foreign table', 'its server' from pg_class c join written w using (oid)
    where c.relkind = 'f' and c.relowner in (table stranger)
    union all
    select u.relation, u.what, 'type ' || u.type::regtype
    from used u join pg_type y on y.oid = u.type left join pg_type i on i.oid = y.typelem
    where y.typowner in (table stranger) and (
        coalesce(nullif(i.typtype, 'b'), y.typtype) <> 'e' or exists (
            select from pg_cast k join pg_proc p on p.oid = k.castfunc
            where (k.castsource in (y.oid, i.oid) or k.casttarget in (y.oid, i.oid)) and p.proowner in (table stranger))))
select relation::regclass::text as relation, what, runs from found order by 1, 2, 3 limit 1
