-- A window is over by the event time of the pipeline whose records count in it, whoever owns the table by now.

-- Whether the watermark of each pipeline that contributes to a window has passed its end. A forgotten pipeline owns no table.
create function window_passed(of_target text, of_key jsonb, ends timestamptz) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce(bool_and(coalesce(e.watermark >= ends, false)), false)
    from lockstep.contribution c join lockstep.stream s using (stream_id) left join lockstep.event_time e using (pipeline)
    where c.target = of_target and c.key = of_key
$$;

-- A window is shown once the watermark has passed it. Then each change is one revision more, and none is used twice.
create or replace function guard_window() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_op = 'DELETE' then
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

-- A window's records stay as many. What is folded can never be read again: it ends at or before a log start that a committed
-- batch has seen, nobody claims it, and the window is over.
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
    select w.target, w.batch_id, w.stream_id, sum(w.records - w.folded)
    from was w join becomes b using (batch_id, stream_id, target, key)
    where b.records = 0 and w.records > 0 group by w.target, w.batch_id, w.stream_id
    on conflict on constraint folded_once do update set records = f.records + excluded.records;
    return null;
end $$;

revoke execute on function window_passed from public;
