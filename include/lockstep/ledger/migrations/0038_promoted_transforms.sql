-- A transform is promoted: from exact offsets on, no batch is committed by another one. A decision says so.

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
        replace(kinds, '''hand-over''::text', '''hand-over''::text, ''promote''::text, ''withdraw''::text'));
end $$;

-- The decision names the transform by the SHA-256 of its source, and the offsets that it begins with.
alter table decision add constraint promote_is_told check (kind <> 'promote' or (
    coalesce(detail ->> 'transform' ~ '^[0-9a-f]{64}$', false)
    and coalesce(jsonb_path_exists(detail, '$."from"[*]."offset" ? (@.type() == "number")'), false)));

create index promotion_of_pipeline on decision (pipeline, decision_id) where kind in ('promote', 'withdraw');

-- The ledger itself writes the offsets down: where the open streams stand. A commit under way is waited for, and no plan begins
-- meanwhile. Locks are taken in the one order: pipeline, batches, streams.
create function begin_promotion() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    stands jsonb;
    newest record;
begin
    perform from lockstep.pipeline p where p.name = new.pipeline for no key update;
    perform from lockstep.batch b where b.pipeline = new.pipeline and b.state = 'planned' order by b.batch_id for no key update;
    select coalesce(jsonb_agg(jsonb_build_object(
        'topic', s.topic, 'partition', s.partition, 'stream', s.stream_id, 'offset', s.position) order by s.stream_id), '[]')
    into stands from (
        select t.topic, t.partition, t.stream_id, t.position from lockstep.stream t
        where t.pipeline = new.pipeline and t.retired_at is null order by t.stream_id for no key update) s;
    new.detail := new.detail || jsonb_build_object('from', stands);
    if new.kind = 'withdraw' then
        select d.decision_id, d.kind into newest from lockstep.decision d
        where d.pipeline = new.pipeline and d.kind in ('promote', 'withdraw') order by d.decision_id desc limit 1;
        if newest.kind is distinct from 'promote' then
            raise exception 'withdrawn_is_promoted: no transform of % is promoted', new.pipeline
                using errcode = '23514', constraint = 'withdrawn_is_promoted';
        end if;
        new.detail := new.detail || jsonb_build_object('promotion', newest.decision_id);
    end if;
    return new;
end $$;
create trigger withdrawn_is_promoted before insert on decision
    for each row when (new.kind in ('promote', 'withdraw')) execute function begin_promotion();

-- While a transform is promoted, no other one commits, whatever the lane. A commit and a promotion wait for each other at the
-- batch's row.
create function guard_promoted() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    other record;
begin
    select a.batch_id, n.decision_id into other
    from (select distinct batch_id, definition_hash from added) a
    join lockstep.batch b using (batch_id) join lockstep.definition f using (definition_hash)
    cross join lateral (
        select d.decision_id, d.kind, d.detail ->> 'transform' as transform from lockstep.decision d
        where d.pipeline = b.pipeline and d.kind in ('promote', 'withdraw') order by d.decision_id desc limit 1) n
    where n.kind = 'promote'
      and n.transform is distinct from encode(sha256(convert_to(f.document ->> 'transform', 'UTF8')), 'hex') limit 1;
    if found then
        raise exception 'promoted_alone: batch % is not made by the transform that decision % promotes',
            other.batch_id, other.decision_id using errcode = '23514', constraint = 'promoted_alone';
    end if;
    return null;
end $$;
create trigger promoted_alone after insert on commit referencing new table as added
    for each statement execute function guard_promoted();
