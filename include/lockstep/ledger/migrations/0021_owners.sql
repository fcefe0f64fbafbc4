-- A table has one owner, or several pipelines that name one another as sharing it.

create table target_owner (
    store text not null,  -- empty: the ledger's own database; else the name of another Postgres
    target text not null,  -- schema.table, in lower case
    pipeline text not null references pipeline,
    shared_with text[] not null default '{}',
    since timestamptz not null default clock_timestamp(),
    primary key (store, target, pipeline),
    constraint target_is_qualified check (target ~ '^[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$'),
    constraint shares_with_others check (pipeline <> all (shared_with))
);
-- Two pipelines that share with nobody never own one table, whatever the trigger below does.
create unique index one_owner on target_owner (store, target) where shared_with = '{}';

-- Owners of one table name one another. Registrations of one table wait for each other.
create function guard_owner() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    other record;
begin
    perform pg_advisory_xact_lock(hashtextextended('lockstep.owner ' || new.store || ' ' || new.target, 0));
    select o.pipeline into other from lockstep.target_owner o
    where o.store = new.store and o.target = new.target and o.pipeline <> new.pipeline
      and not (o.pipeline = any(new.shared_with) and new.pipeline = any(o.shared_with)) limit 1;
    if found then
        raise exception 'owned_once: % belongs to %, and % and % do not both say that they share it',
            new.target, other.pipeline, new.pipeline, other.pipeline using errcode = '23514', constraint = 'owned_once';
    end if;
    return new;
end $$;
create trigger owned_once before insert or update on target_owner for each row execute function guard_owner();

-- The tables that a definition writes, with the store that they are in; files lie in a folder of the pipeline's name.
create function written_tables(document jsonb) returns table (store text, target text)
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select coalesce(document -> 'store' ->> 'name', ''), t #>> '{}'
    from jsonb_path_query(document, '$.target[*].table') t
    where coalesce(document -> 'store' ->> 'kind', 'Postgres') <> 'Files'
$$;

-- No commit into a table that belongs to other pipelines, whoever was its owner when the batch was planned.
create function guard_owned_commit() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    foreign_table record;
begin
    select d.pipeline, w.target into foreign_table
    from (select distinct batch_id, token from added) c
    join lockstep.attempt a using (batch_id, token) join lockstep.definition d using (definition_hash)
    cross join lateral lockstep.written_tables(d.document) w
    where exists (select 1 from lockstep.target_owner o where o.store = w.store and o.target = w.target)
      and not exists (
        select 1 from lockstep.target_owner o where o.store = w.store and o.target = w.target and o.pipeline = d.pipeline)
    limit 1;
    if found then
        raise exception 'commit_by_owner: % belongs to another pipeline than %', foreign_table.target, foreign_table.pipeline
            using errcode = '23514', constraint = 'commit_by_owner';
    end if;
    return null;
end $$;
create trigger commit_by_owner after insert on commit referencing new table as added
    for each statement execute function guard_owned_commit();

-- Who has committed into a table, by the definitions of what was committed: what a ledger knows that is older than this.
create view target_writer as
select distinct w.store, w.target, d.pipeline
from lockstep.definition d cross join lateral lockstep.written_tables(d.document) w
where exists (
    select 1 from lockstep.attempt a join lockstep.commit c using (batch_id, token) where a.definition_hash = d.definition_hash);

alter table decision drop constraint decision_kind_check;
alter table decision add constraint decision_kind_check check (kind in (
    'pause', 'unpause', 'skip', 'accept-loss', 'abandon', 'retire', 'approve', 'grow', 'restored', 'hand-over'));

grant select on target_owner, target_writer
    to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
grant insert, delete on target_owner to lockstep_planner;
grant update (shared_with) on target_owner to lockstep_planner;
