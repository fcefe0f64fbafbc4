-- name: create_role
-- One of the product's roles, where it is not there yet; roles belong to the whole cluster, so a racing migration may win.
do $$ begin
    create role {role} nologin;
exception when duplicate_object or unique_violation then null;
end $$

-- name: join_role
-- The login takes the role on with `set role`.
grant {role} to current_user

-- name: create_schemas
-- The committer owns the staging schema, because only a schema's owner may drop another role's tables in it.
create schema if not exists lockstep authorization lockstep_owner;
create schema if not exists lockstep_staging authorization lockstep_committer;
grant usage, create on schema lockstep_staging to lockstep_stager;
grant usage on schema lockstep_staging to lockstep_reader, lockstep_partition;
-- What was staged may become a partition of the owner's.
grant usage, create on schema lockstep_staging to lockstep_owner;
grant lockstep_stager to lockstep_owner;
-- Targets have an owner of their own, which owns nothing of the ledger.
grant lockstep_targets to lockstep_owner;
-- Images of the rows that commits change.
create schema if not exists lockstep_feed authorization lockstep_owner;
grant usage on schema lockstep_feed to lockstep_reader;
-- Rows that are sent and have no table of an author's.
create schema if not exists lockstep_send authorization lockstep_owner;
grant usage on schema lockstep_send to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_reader;
grant usage, create on schema lockstep_send to lockstep_targets;
-- Pointers of the lake's tables.
create schema if not exists lockstep_lake authorization lockstep_owner;
grant usage on schema lockstep_lake to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_reader;
alter default privileges for role lockstep_stager in schema lockstep_staging
    grant select on tables to lockstep_committer, lockstep_reader;
-- Executors write staged rows, and read nothing.
grant usage on schema lockstep_staging to lockstep_executor;
alter default privileges for role lockstep_stager in schema lockstep_staging grant insert on tables to lockstep_executor;
-- A suite is judged by a role that reads what a judgement shows it, and nothing else. Who stages may take it on.
grant lockstep_judge to lockstep_stager;
grant create on schema public to lockstep_owner, lockstep_targets;
create table if not exists lockstep.migration (
    version int primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default clock_timestamp()
);
alter table lockstep.migration owner to lockstep_owner;
grant select on lockstep.migration to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_reader

-- name: lock_migrations
-- One migration at a time in this database.
select pg_advisory_xact_lock(hashtext('lockstep.migrate'))

-- name: hold_deciders
-- Waits until every transaction that plans, opens, validates, commits or decides is over; the next ones see the new version.
-- First of all locks: those transactions read the version behind these two.
do $$ begin
    if to_regclass('lockstep.batch') is not null then
        set local role lockstep_owner;
        lock table lockstep.pipeline, lockstep.batch in exclusive mode;
        set local role none;
    end if;
end $$

-- name: applied
-- What has been applied, in order.
select version, name, checksum from lockstep.migration order by version

-- name: record_migration
-- One more is applied.
insert into lockstep.migration (version, name, checksum) values (%(version)s, %(name)s, %(checksum)s)

-- name: ledger_exists
-- Whether the ledger has been migrated at all.
select exists (
    select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'lockstep' and c.relname = 'migration')

-- name: grant_target
-- What the committer does to a target, and who may read it.
grant select, insert, update, delete on {target} to lockstep_committer;
grant select on {target} to lockstep_reader, lockstep_planner, lockstep_stager

-- name: grant_target_to_tasks
-- What tasks that commit by themselves do to a target.
grant select, insert, update, delete on {target} to lockstep_partition

-- name: sequences_of_target
-- The sequences of a table's columns, and of the table behind a view, that are no identities: who inserts needs a right on them.
select c.oid::regclass::text as name from pg_depend d join pg_class c on c.oid = d.objid and c.relkind = 'S'
where d.classid = 'pg_class'::regclass and d.refclassid = 'pg_class'::regclass and d.deptype = 'a'
  and d.refobjid in (to_regclass(%(table)s), to_regclass(%(rows_table)s))

-- name: grant_sequence
-- Who inserts rows takes their numbers.
grant usage on sequence {sequence} to lockstep_committer, lockstep_partition
