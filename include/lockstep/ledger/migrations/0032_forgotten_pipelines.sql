-- A pipeline can end. A decision ends it, its tables are free again, and its history stays.

-- Two kinds of decisions more, beside whatever kinds there are.
do $$
declare
    kinds text := (select pg_get_constraintdef(oid) from pg_constraint
        where conrelid = 'lockstep.decision'::regclass and conname = 'decision_kind_check');
begin
    if strpos(kinds, '''hand-over''::text') = 0 then
        raise exception 'decision_kind_check is not as migration 0026 made it: %', kinds;
    end if;
    alter table decision drop constraint decision_kind_check;
    execute format('alter table decision add constraint decision_kind_check %s',
        replace(kinds, '''hand-over''::text', '''hand-over''::text, ''forget''::text, ''remember''::text'));
end $$;

-- The decision tells which tables it gives free: erasures follow the rows to the next owner.
alter table decision add constraint forget_is_told check (kind <> 'forget' or (
    coalesce(jsonb_typeof(detail -> 'tables') = 'array', false)
    and not jsonb_path_exists(detail, '$.tables[*] ? (!(@.store.type() == "string" && @.target.type() == "string"))')));

-- Null: the pipeline goes on. Else the decision that ended it, which the trigger looks for: decisions refer to pipelines, too.
alter table pipeline add column forgotten_by bigint;

-- No pipeline ends, or goes on again, without its newest decision about that. One that ends has nothing under way.
create function guard_forgetting() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    newest record;
    kept text;
begin
    if new.forgotten_by is not distinct from old.forgotten_by then
        return new;
    end if;
    select d.decision_id, d.kind into newest from lockstep.decision d
    where d.pipeline = new.name and d.kind in ('forget', 'remember') order by d.decision_id desc limit 1;
    if not coalesce(case when new.forgotten_by is null then newest.kind = 'remember'
            else old.forgotten_by is null and newest.kind = 'forget' and newest.decision_id = new.forgotten_by end, false) then
        raise exception 'forgotten_is_decided: no decision says that % ends, or that it goes on', new.name
            using errcode = '23514', constraint = 'forgotten_is_decided';
    end if;
    kept := case when new.forgotten_by is null then null
        when exists (select from lockstep.batch b where b.pipeline = new.name and b.state = 'planned') then 'a batch under way'
        when exists (select from lockstep.request r where r.pipeline = new.name and r.closed_at is null) then 'an open request'
        when exists (select from lockstep.target_owner o where o.pipeline = new.name) then 'a table' end;
    if kept is not null then
        raise exception 'forgotten_is_idle: % has % and cannot be forgotten', new.name, kept
            using errcode = '23514', constraint = 'forgotten_is_idle';
    end if;
    return new;
end $$;
create trigger forgotten_is_decided before insert or update of forgotten_by on pipeline
    for each row execute function guard_forgetting();

-- Nothing begins under the name of a pipeline that has ended. Its row is shared until the COMMIT, so it does not end meanwhile.
create function guard_forgotten() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    each record;
begin
    for each in
        select p.name, p.forgotten_by from lockstep.pipeline p
        where p.name in (select a.pipeline from added a) order by p.name for share
    loop
        if each.forgotten_by is not null then
            raise exception 'forgotten_rests: % was forgotten by decision %', each.name, each.forgotten_by
                using errcode = '23514', constraint = 'forgotten_rests';
        end if;
    end loop;
    return null;
end $$;
create trigger forgotten_rests after insert on batch referencing new table as added
    for each statement execute function guard_forgotten();
create trigger forgotten_rests after insert on request referencing new table as added
    for each statement execute function guard_forgotten();
create trigger forgotten_rests after insert on stream referencing new table as added
    for each statement execute function guard_forgotten();
create trigger forgotten_rests after insert on target_owner referencing new table as added
    for each statement execute function guard_forgotten();

-- Who has committed into a table, as a ledger knows it that is older than the owners. A pipeline that has ended writes no more.
create or replace view target_writer as
select distinct w.store, w.target, d.pipeline
from lockstep.definition d cross join lateral lockstep.written_tables(d.document) w
where exists (
    select 1 from lockstep.attempt a join lockstep.commit c using (batch_id, token) where a.definition_hash = d.definition_hash)
  and not exists (select 1 from lockstep.pipeline p where p.name = d.pipeline and p.forgotten_by is not null);

-- A pipeline, those that have handed a table over to it, and those that gave one of its tables free: their rows are its own now,
-- and so are their erasures.
create or replace function line_of(of_pipeline text) returns text[]
language sql stable set search_path = pg_catalog, pg_temp as $$
    with recursive gave (giver, receiver) as not materialized (
        select d.pipeline, d.detail ->> 'to' from lockstep.decision d
        where d.kind = 'hand-over' and d.pipeline <> d.detail ->> 'to'
        union all
        select d.pipeline, o.pipeline from lockstep.decision d
        cross join lateral jsonb_to_recordset(d.detail -> 'tables') t (store text, target text)
        join lockstep.target_owner o using (store, target)
        where d.kind = 'forget' and d.pipeline <> o.pipeline),
    line (name) as (select of_pipeline union select g.giver from line l join gave g on g.receiver = l.name)
    select array_agg(name) from line
$$;

grant update (forgotten_by) on pipeline to lockstep_planner;
