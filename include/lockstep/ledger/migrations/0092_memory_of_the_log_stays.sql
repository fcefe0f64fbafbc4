-- A deletion of a stream that growth has closed stays as long as its log is read. What a batch takes out, it reads again in the
-- same transaction.

-- Whether upkeep has passed an offset of a stream's log, or the log is read no more. Growth closes a stream and keeps its log.
create function is_passed(stream int, at_offset bigint) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from lockstep.stream s left join lockstep.stream o on o.pipeline = s.pipeline and o.topic = s.topic
            and o.partition = s.partition and o.incarnation = s.incarnation and o.retired_at is null
        where s.stream_id = stream and (s.retired_at is not null and o.stream_id is null
            or greatest(s.upkept_below, o.upkept_below) > at_offset))
$$;

create or replace function guard_remembered_deletion() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if tg_op = 'UPDATE' then
        if (new.target, new.key) = (old.target, old.key) and lockstep.is_under_way(new.stream_id, new."offset", false) then
            return new;
        end if;
    elsif lockstep.is_under_way(old.stream_id, old."offset", true) or lockstep.is_erased_now(old.key)
            or lockstep.is_passed(old.stream_id, old."offset") then
        return old;
    end if;
    raise exception 'memory_stays: no attempt under way takes the deletion at offset % of stream % from %',
        old."offset", old.stream_id, old.target using errcode = '23514', constraint = 'memory_stays';
end $$;

-- At the COMMIT, a batch of this transaction has read the record. One that gave up has read nothing.
create function guard_read_again() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if exists (
        select from lockstep.coverage c
        where int4range(c.stream_id, c.stream_id, '[]') && int4range(old.stream_id, old.stream_id, '[]')
          and c.offsets @> old."offset" and c.kind = 'batch' and lockstep.is_of_this_transaction(c.xmin)) then
        return null;
    end if;
    if tg_relid = 'lockstep.tombstone'::regclass then
        if lockstep.is_passed(old.stream_id, old."offset") or exists (
            select from lockstep.erasure e join lockstep.erasure_salt z using (pipeline)
            cross join jsonb_array_elements_text(old.key) as k (value)
            where lockstep.is_of_this_transaction(e.xmin) and e.digest = lockstep.key_digest(
                z.salt, convert_to(case when e.as_uuid then lower(replace(k.value, '-', '')) else k.value end, 'UTF8'))) then
            return null;
        end if;
    end if;
    raise exception 'read_again: offset % of stream % was taken out of %, and no batch of this transaction has read it again',
        old."offset", old.stream_id, tg_relid::regclass using errcode = '23514', constraint = 'read_again';
end $$;
create constraint trigger read_again after delete on tombstone
deferrable initially deferred for each row when (current_user <> 'lockstep_owner'::name) execute function guard_read_again();
create constraint trigger read_again after delete on reject
deferrable initially deferred for each row when (current_user <> 'lockstep_owner'::name) execute function guard_read_again();
