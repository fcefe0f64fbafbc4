-- Upkeep of lake tables merges files and expires snapshots. It moves pointers without offsets, each time by a decision.

-- One kind of decisions more, beside whatever kinds there are.
do $$
declare
    kinds text := (select pg_get_constraintdef(oid) from pg_constraint
        where conrelid = 'lockstep.decision'::regclass and conname = 'decision_kind_check');
begin
    if strpos(kinds, '''erase''::text') = 0 then
        raise exception 'decision_kind_check is not as earlier migrations made it: %', kinds;
    end if;
    alter table decision drop constraint decision_kind_check;
    execute format('alter table decision add constraint decision_kind_check %s',
        replace(kinds, '''erase''::text', '''erase''::text, ''upkeep''::text'));
end $$;
alter table decision add constraint upkeep_is_told check (kind <> 'upkeep' or (
    coalesce(detail ->> 'step', '') in ('merge', 'manifests', 'expire') and num_nonnulls(
        detail ->> 'table', detail ->> 'before', detail ->> 'after') = 3));
create index upkeep_of_table on decision ((detail ->> 'after')) where kind = 'upkeep';

-- A step of upkeep: its files have its id in their names. Written before the first of them is.
create table lake_upkeep (
    commit_uuid uuid primary key,
    catalog text not null,
    namespace text not null,
    name text not null,
    step text not null check (step in ('merge', 'manifests', 'expire')),
    before text not null,  -- metadata beside which it writes its own
    prefix text not null,  -- where its files of rows lie
    at timestamptz not null default clock_timestamp(),
    ended_at timestamptz,  -- the pointer has moved to what it prepared, or never will
    swept_at timestamptz,
    constraint swept_when_ended check (swept_at is null or ended_at is not null)
);
create index on lake_upkeep (catalog, namespace, name);

-- An ended step stays ended: a process that was taken for dead moves no pointer to files that are swept.
create function guard_lake_upkeep() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if old.ended_at is not null and new.ended_at is distinct from old.ended_at then
        raise exception 'upkeep_ends_once: step % of upkeep has ended', old.commit_uuid
            using errcode = '23514', constraint = 'upkeep_ends_once';
    end if;
    return new;
end $$;
create trigger upkeep_ends_once before update on lake_upkeep for each row execute function guard_lake_upkeep();

-- A file that no snapshot holds since this decision. It is deleted behind the move.
create table lake_gone (
    path text primary key,
    catalog text not null,
    namespace text not null,
    name text not null,
    decision_id bigint not null references decision,
    deleted_at timestamptz
);
create index on lake_gone (catalog, namespace, name) where deleted_at is null;

-- The order of a commit's snapshot among all of its table: no ancestor of a later one is as old, and is not it.
alter table lake_commit add column sequence bigint;  -- Null: committed before this migration.

-- No rows without their offsets: what the committer moves is what a commit of this transaction says, or its decision of upkeep.
create or replace function guard_lake_pointer() returns trigger language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
declare
    mine bigint := pg_current_xact_id()::text::bigint % 4294967296;
begin
    if exists (
        select from lockstep.lake_commit m join lockstep.commit c using (batch_id, token)
        where (m.catalog, m.namespace, m.name) = (new.catalog, new.namespace, new.name)
          and m.before = new.before and m.after = new.after) then
        return null;
    end if;
    if exists (
        select from lockstep.decision d
        where d.kind = 'upkeep' and d.xmin::text::bigint = mine
          and d.detail ->> 'table' = concat_ws('.', new.catalog, new.namespace, new.name)
          and d.detail ->> 'before' = new.before and d.detail ->> 'after' = new.after
          and exists (
            select from lockstep.lake_upkeep u
            where (u.catalog, u.namespace, u.name) = (new.catalog, new.namespace, new.name)
              and u.xmin::text::bigint = mine and u.ended_at is not null and u.swept_at is null
              and strpos(new.after, u.commit_uuid::text) > 0)) then
        return null;
    end if;
    raise exception 'offsets_with_pointer: %.%.% moves without offsets, and without a decision of upkeep',
        new.catalog, new.namespace, new.name using errcode = '23514', constraint = 'offsets_with_pointer';
end $$;

grant select on lake_upkeep, lake_gone
    to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
grant insert on lake_upkeep, lake_gone to lockstep_committer;
grant update (ended_at, swept_at) on lake_upkeep to lockstep_committer;
grant update (deleted_at) on lake_gone to lockstep_committer;
revoke execute on function guard_lake_upkeep from public;
