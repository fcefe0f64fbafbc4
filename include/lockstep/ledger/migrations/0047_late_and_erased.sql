-- An erasure takes a key out of windows. A preview of an admission says what it would admit.

-- Whether a window's key holds what the newest erasure of its table's owner takes out, while that is not decided.
create function is_being_erased(of_target text, of_key jsonb) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from lockstep.target_owner o join lockstep.erasure_salt z using (pipeline)
        cross join lateral (
            select e.* from lockstep.erasure e where e.pipeline = o.pipeline order by e.erasure_id desc limit 1) e
        cross join jsonb_array_elements_text(of_key) with ordinality as k (value, place)
        where o.store = '' and o.target = of_target and k.place > 1 and e.digest = lockstep.key_digest(
                z.salt, convert_to(case when e.as_uuid then replace(k.value, '-', '') else k.value end, 'UTF8'))
          and lockstep.erasure_decision(e.erasure_id) is null)
$$;

-- A window is shown once the watermark has passed it. Then each change is one revision more, and none is used twice. A window goes
-- with the key that an erasure takes out.
create or replace function guard_window() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_op = 'DELETE' then
        if lockstep.is_being_erased(old.target, old.key) then
            return old;
        end if;
        raise exception 'window_stays: % of %', old.key, old.target using errcode = '23514', constraint = 'window_stays';
    end if;
    if (case tg_op when 'INSERT' then new.revision <> 0 else new.revision not in (old.revision, old.revision + 1)
            or (new.target, new.key, new.ends) is distinct from (old.target, old.key, old.ends) end) then
        raise exception 'revision_by_one: window % of % would have revision %', new.key, new.target, new.revision
            using errcode = '23514', constraint = 'revision_by_one';
    end if;
    if new.revision = 1 and old.revision = 0 and not lockstep.window_passed(new.target, new.key, new.ends) then
        raise exception 'shown_when_passed: window % of % ends at %, which the watermark has not passed', new.key, new.target, new.ends
            using errcode = '23514', constraint = 'shown_when_passed';
    end if;
    return new;
end $$;

-- A late record stays, until a replay judges its segment again, or an erasure takes its key out.
create or replace function guard_late_gone() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    stray record;
begin
    select g.* into stray from gone g where tg_op = 'UPDATE' or not exists (
        select from lockstep.claim k
        where k.stream_id = g.stream_id and k.offsets @> g."offset" and k.expects = 'batch')
        and not lockstep.is_being_erased(g.target, g.key) limit 1;
    if found then
        raise exception '%: offset % of stream %', tg_name, stray."offset", stray.stream_id
            using errcode = '23514', constraint = tg_name;
    end if;
    return null;
end $$;

-- The judged ranges whose late records a request lets count. Those of a preview are admitted by nobody yet.
create table request_admits (
    request_id bigint not null references request,
    stream_id integer not null references stream,
    offsets int8range not null,
    primary key (request_id, stream_id, offsets)
);

revoke execute on function is_being_erased from public;
grant delete on window_state to lockstep_committer;
grant select on request_admits to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
grant insert on request_admits to lockstep_planner;
