-- Windows become known and are shown by the thousand, so what guards them looks at each statement's windows together.

drop trigger revision_by_one on window_state;
drop function guard_window();

-- Nobody is shown a window at first. Then each change is one revision more, and none is used twice.
create function refuse_revision() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    raise exception 'revision_by_one: window % of % would have revision %', new.key, new.target, new.revision
        using errcode = '23514', constraint = 'revision_by_one';
end $$;
create trigger revision_begins_at_0 before insert on window_state for each row
    when (new.revision <> 0) execute function refuse_revision();
create trigger revision_by_one before update on window_state for each row
    when (new.revision not in (old.revision, old.revision + 1) or new.target <> old.target or new.key <> old.key
        or new.ends <> old.ends) execute function refuse_revision();

-- A window is shown once the watermark of each pipeline that contributes to it has passed its end. What it was before is not
-- asked: two transition tables are joined row with row where the first statement of a session changed nothing.
create function guard_showing() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    stray record;
begin
    select b.target, b.key, b.ends into stray from becomes b
    left join lockstep.contribution c on c.target = b.target and c.key = b.key
    left join (select s.stream_id, e.watermark from lockstep.stream s join lockstep.event_time e using (pipeline)) t
        on t.stream_id = c.stream_id
    where b.revision = 1 and (t.watermark >= b.ends) is not true limit 1;
    if found then
        raise exception 'shown_when_passed: window % of % ends at %, which the watermark has not passed',
            stray.key, stray.target, stray.ends using errcode = '23514', constraint = 'shown_when_passed';
    end if;
    return null;
end $$;
create trigger shown_when_passed after update on window_state referencing new table as becomes
    for each statement execute function guard_showing();

-- A window goes with the key that an erasure takes out.
create function guard_window_gone() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if lockstep.is_being_erased(old.target, old.key) then
        return old;
    end if;
    raise exception 'window_stays: % of %', old.key, old.target using errcode = '23514', constraint = 'window_stays';
end $$;
create trigger window_stays before delete on window_state for each row execute function guard_window_gone();

-- A window's records stay as many. What is folded can never be read again: it ends at or before a log start that a committed
-- batch has seen, nobody claims it, and the window is over. What a segment gives up is counted without a join: see guard_showing.
create or replace function guard_folding() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    stray record;
begin
    select coalesce(w.target, b.target) as target, coalesce(w.key, b.key) as key into stray
    from was w full join becomes b using (batch_id, stream_id, target, key)
    where not coalesce((b."offset", b.ordinal) = (w."offset", w.ordinal) and (
        (b.records = 0 and b.totals = '{}')
        or (b.records - b.folded = w.records - w.folded
            and (b.folded > w.folded or (b.folded = w.folded and b.totals = w.totals)))), false) limit 1;
    if not found then
        select m.target, m.key into stray from (
            select target, key, records from was union all select target, key, -records from becomes) m
        group by m.target, m.key having sum(m.records) <> 0 limit 1;
    end if;
    if found then
        raise exception 'folded_whole: window % of % would have other records', stray.key, stray.target
            using errcode = '23514', constraint = 'folded_whole';
    end if;
    select w.batch_id, w.stream_id into stray from (select distinct batch_id, stream_id from was) w
    left join lockstep.batch_range r on r.batch_id = w.batch_id and r.stream_id = w.stream_id
    where (upper(r.offsets) <= (
        select u.log_start_after from lockstep.coverage c join lockstep.commit m using (batch_id, stream_id)
        join lockstep.result u using (batch_id, token, stream_id)
        where c.stream_id = w.stream_id and c.kind = 'batch' order by lower(c.offsets) desc limit 1)) is not true limit 1;
    if found then
        raise exception 'folded_below_log_start: batch % of stream % can be read again', stray.batch_id, stray.stream_id
            using errcode = '23514', constraint = 'folded_below_log_start';
    end if;
    select w.batch_id, w.stream_id into stray from (select distinct batch_id, stream_id from was) w
    join lockstep.batch_range r on r.batch_id = w.batch_id and r.stream_id = w.stream_id
    join lockstep.claim k on k.stream_id = r.stream_id and k.offsets && r.offsets limit 1;
    if found then
        raise exception 'folded_unclaimed: batch % of stream % is claimed', stray.batch_id, stray.stream_id
            using errcode = '23514', constraint = 'folded_unclaimed';
    end if;
    select w.target, w.key into stray from (select distinct target, key from was) w
    where not exists (
        select from lockstep.window_state s
        where s.target = w.target and s.key = w.key and lockstep.window_passed(s.target, s.key, s.ends)) limit 1;
    if found then
        raise exception 'folded_when_passed: window % of % is not over', stray.key, stray.target
            using errcode = '23514', constraint = 'folded_when_passed';
    end if;
    insert into lockstep.folded as f (target, batch_id, stream_id, records)
    select g.target, g.batch_id, g.stream_id, sum(g.own) from (
        select target, batch_id, stream_id, records - folded as own from was
        union all select target, batch_id, stream_id, folded - records from becomes) g
    group by g.target, g.batch_id, g.stream_id having sum(g.own) > 0
    on conflict on constraint folded_once do update set records = f.records + excluded.records;
    return null;
end $$;
