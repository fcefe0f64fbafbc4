-- A pipeline begins where another reader stands: a decision says at which offsets, and whose they were.

-- One kind of decisions more, beside whatever kinds there are.
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
        replace(kinds, '''hand-over''::text', '''hand-over''::text, ''adopt''::text'));
end $$;

-- The decision names the digest that was shown, the reader, and an offset for each partition.
alter table decision add constraint adopt_is_told check (kind <> 'adopt' or (
    coalesce(detail ->> 'digest' ~ '^[0-9a-f]{16}$', false)
    and coalesce(jsonb_typeof(detail #> '{reader,kind}') = 'string', false)
    and coalesce(jsonb_path_exists(detail, '$."from"[*]'), false)
    and not jsonb_path_exists(detail, '$."from"[*] ? (!(@.topic.type() == "string"
        && @.partition.type() == "number" && @.offset.type() == "number"))')));

-- Another reader's offsets are a beginning. A pipeline that has streams, open or closed, has begun. No plan begins meanwhile.
create function guard_adoption() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform from lockstep.pipeline p where p.name = new.pipeline for no key update;
    if exists (select from lockstep.stream s where s.pipeline = new.pipeline) then
        raise exception 'adopted_first: % has planned already', new.pipeline
            using errcode = '23514', constraint = 'adopted_first';
    end if;
    return new;
end $$;
create trigger adopted_first before insert on decision
    for each row when (new.kind = 'adopt') execute function guard_adoption();

-- At the COMMIT, the streams begin where the decision says, all of them and no others.
create function check_adoption() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    other record;
begin
    select coalesce(s.partition, f.partition) as partition into other
    from (select topic, partition, start_offset from lockstep.stream where pipeline = new.pipeline) s
    full join jsonb_to_recordset(new.detail -> 'from') f (topic text, partition int, "offset" bigint)
        on f.topic = s.topic and f.partition = s.partition
    where s.start_offset is distinct from f."offset" limit 1;
    if found then
        raise exception 'adopted_as_decided: partition % of % does not begin where decision % says',
            other.partition, new.pipeline, new.decision_id using errcode = '23514', constraint = 'adopted_as_decided';
    end if;
    return null;
end $$;
create constraint trigger adopted_as_decided after insert on decision deferrable initially deferred
    for each row when (new.kind = 'adopt') execute function check_adoption();
