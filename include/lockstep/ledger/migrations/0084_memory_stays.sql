-- What the ledger remembers goes only with the attempt that reads its offsets again, or with a decision of the same transaction.

-- Whether the newest attempt of an unfinished batch is open, and the batch claims this offset. `again`: of what is committed.
create function is_under_way(stream int, at_offset bigint, again boolean) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from lockstep.claim k join lockstep.batch b using (batch_id)
        join lockstep.attempt a on a.batch_id = b.batch_id and a.token = b.token
        where k.stream_id = stream and lower(k.offsets) <= at_offset and upper(k.offsets) > at_offset
          and (k.expects = 'batch' or not again) and b.state = 'planned' and a.closed_at is null)
$$;

-- Whether an erasure of this transaction takes the key out.
create function is_erased_now(of_key jsonb) returns boolean
language sql volatile set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from lockstep.erasure e join lockstep.erasure_salt z using (pipeline)
        cross join jsonb_array_elements_text(of_key) as k (value)
        where lockstep.is_of_this_transaction(e.xmin) and lockstep.erasure_decision(e.erasure_id) is null
          and e.digest = lockstep.key_digest(
            z.salt, convert_to(case when e.as_uuid then lower(replace(k.value, '-', '')) else k.value end, 'UTF8')))
$$;

-- A deletion goes when its record is read again, when upkeep has passed it, or when its key is erased. It moves to records of
-- the batch under way.
create function guard_remembered_deletion() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if tg_op = 'UPDATE' then
        if (new.target, new.key) = (old.target, old.key) and lockstep.is_under_way(new.stream_id, new."offset", false) then
            return new;
        end if;
    elsif lockstep.is_under_way(old.stream_id, old."offset", true) or lockstep.is_erased_now(old.key) or exists (
            select from lockstep.stream s
            where s.stream_id = old.stream_id and (s.retired_at is not null or s.upkept_below > old."offset")) then
        return old;
    end if;
    raise exception 'memory_stays: no attempt under way takes the deletion at offset % of stream % from %',
        old."offset", old.stream_id, old.target using errcode = '23514', constraint = 'memory_stays';
end $$;
create trigger memory_stays before delete or update on tombstone
for each row when (current_user <> 'lockstep_owner'::name) execute function guard_remembered_deletion();

create function guard_remembered_reject() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if lockstep.is_under_way(old.stream_id, old."offset", true) then
        return old;
    end if;
    raise exception 'memory_stays: no attempt under way reads the reject at offset % of stream % again', old."offset", old.stream_id
        using errcode = '23514', constraint = 'memory_stays';
end $$;
create trigger memory_stays before delete on reject
for each row when (current_user <> 'lockstep_owner'::name) execute function guard_remembered_reject();

-- A table has its owner until it is handed over, or its owner is forgotten.
create function guard_owner_gone() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if not exists (
        select from lockstep.target_owner o where (o.store, o.target, o.pipeline) = (old.store, old.target, old.pipeline))
       and not exists (
        select from lockstep.decision d
        where d.pipeline = old.pipeline and lockstep.is_of_this_transaction(d.xmin) and case d.kind
            when 'hand-over' then (d.detail ->> 'store', d.detail ->> 'target', d.detail ->> 'from') = (old.store, old.target, old.pipeline)
            when 'forget' then d.detail -> 'tables' @> jsonb_build_array(jsonb_build_object('store', old.store, 'target', old.target))
            else false end) then
        raise exception 'owner_stays: no decision of this transaction takes % from %', old.target, old.pipeline
            using errcode = '23514', constraint = 'owner_stays';
    end if;
    return null;
end $$;
create constraint trigger owner_stays after delete on target_owner
deferrable initially deferred for each row when (current_user <> 'lockstep_owner'::name) execute function guard_owner_gone();

create function guard_paused() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if (tg_op = 'INSERT' and not new.paused) or (tg_op = 'UPDATE' and new.paused = old.paused) or exists (
        select from lockstep.decision d
        where d.pipeline = new.name and d.kind = case when new.paused then 'pause' else 'unpause' end
          and lockstep.is_of_this_transaction(d.xmin)) then
        return null;
    end if;
    raise exception 'paused_by_decision: no decision of this transaction % %', case when new.paused then 'pauses' else 'unpauses' end,
        new.name using errcode = '23514', constraint = 'paused_by_decision';
end $$;
create constraint trigger paused_by_decision after insert or update of paused on pipeline
deferrable initially deferred for each row when (current_user <> 'lockstep_owner'::name) execute function guard_paused();

-- After a restore: what is drawn from now on lies past everything that other places have seen. Never goes back. No call goes
-- further than what a ledger can have drawn since its backup, and none past the half of a sequence.
create or replace function pass_over(seen_token bigint, seen_batch bigint, seen_stream bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    room constant bigint := 1000;  -- for what nobody can see, and for who draws meanwhile
    each record;
begin
    if not exists (
        select from lockstep.decision d where d.kind = 'restored' and lockstep.is_of_this_transaction(d.xmin)) then
        raise exception 'passed_over_by_decision: no decision of this transaction says that the ledger was restored'
            using errcode = '23514', constraint = 'passed_over_by_decision';
    end if;
    perform pg_advisory_xact_lock(hashtextextended('lockstep.pass_over', 0));
    for each in
        select s.*, nextval(s.sequence) as at from (values
            ('lockstep.token_seq', seen_token::numeric + room, 2::numeric ^ 40, 2::numeric ^ 62),
            (pg_get_serial_sequence('lockstep.batch', 'batch_id'), seen_batch::numeric + room, 2::numeric ^ 40, 2::numeric ^ 62),
            (pg_get_serial_sequence('lockstep.stream', 'stream_id'), seen_stream::numeric, 2::numeric ^ 24, 2::numeric ^ 30)
        ) as s (sequence, seen, reach, half)
        order by s.seen > s.half desc, s.seen - nextval(s.sequence) - s.reach desc  -- nothing is passed over before a refusal
    loop
        if each.seen > each.at + each.reach or each.seen > each.half then
            raise exception 'passed_over_within_reach: % would go from % to %: at most % numbers are passed over at once, up to %',
                each.sequence, each.at, each.seen, each.reach::bigint, each.half::bigint
                using errcode = '23514', constraint = 'passed_over_within_reach';
        end if;
        if each.seen > each.at then
            perform setval(each.sequence, each.seen::bigint);
        end if;
    end loop;
end $$;
