-- Event time: how far it has come, what each offset was judged by, the windows that were shown, and the records that were late.

-- How far the event time of a pipeline has come: no record with an older event is expected. It never goes back.
create table event_time (
    pipeline text primary key references pipeline on update cascade,
    watermark timestamptz not null default '-infinity',
    moved_at timestamptz not null default clock_timestamp()
) with (fillfactor = 50);

-- How far the event time of a stream has come, by what was committed of it.
create table stream_time (
    stream_id int primary key references stream,
    opened_with timestamptz not null default '-infinity',  -- the pipeline's watermark when the stream was opened
    seen timestamptz,  -- the newest event of a live batch that had happened when the batch was planned
    idle_at timestamptz  -- a moment at which the log had nothing behind the position
) with (fillfactor = 50);

-- A live batch is judged by the watermark that was written down with its plan, whenever it commits.
alter table batch add column watermark timestamptz;
alter table batch add constraint watermark_of_live check (watermark is null or lane = 'live');

-- The watermark that decided what of these offsets is late. Every replay judges by it again.
create table judged (
    stream_id int not null references stream,
    offsets int8range not null,
    watermark timestamptz not null,
    admitted_by bigint references decision,  -- since this decision nothing of them is late
    constraint judged_half_open check (
        not isempty(offsets) and lower_inc(offsets) and not upper_inc(offsets)
        and lower(offsets) >= 0 and upper(offsets) is not null),
    constraint judged_once exclude using gist (int4range(stream_id, stream_id, '[]') with &&, offsets with &&)
);
create index judged_order on judged (stream_id, lower(offsets));

-- The windows of a target. The key is that of their contributions: the window's start, then the key.
create table window_state (
    target text not null,
    key jsonb not null,
    ends timestamptz not null,
    revision int not null default 0 check (revision >= 0),  -- 0: not shown yet
    constraint one_state_a_window primary key (target, key)
) with (fillfactor = 70);
create index window_due on window_state (target, ends) where revision = 0;

-- Records that came for a window after it was closed, with the row that does not count there.
create table late (
    target text not null,
    stream_id int not null references stream,
    "offset" bigint not null,
    ordinal int not null,
    window_start timestamptz not null,
    window_end timestamptz not null,
    key jsonb not null,
    event_time timestamptz not null,
    watermark timestamptz not null,  -- that it was judged by
    batch_id bigint not null references batch,
    row jsonb not null,
    constraint late_once primary key (target, stream_id, "offset", ordinal, window_start)
);
create index late_of_window on late (target, window_start);
create index late_of_batch on late (batch_id);

-- Time rises, and no further than what the open streams have seen.
create function guard_watermark() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    allowed timestamptz;
begin
    if tg_op = 'UPDATE' and new.watermark < old.watermark then
        raise exception 'watermark_rises: that of % would go back from % to %', new.pipeline, old.watermark, new.watermark
            using errcode = '23514', constraint = 'watermark_rises';
    end if;
    if new.watermark > '-infinity' and (tg_op = 'INSERT' or new.watermark > old.watermark) then
        select min(greatest(coalesce(t.opened_with, '-infinity'), t.seen, t.idle_at)) into allowed
        from lockstep.stream s left join lockstep.stream_time t using (stream_id)
        where s.pipeline = new.pipeline and s.retired_at is null;
        if allowed is null or new.watermark > allowed then
            raise exception 'watermark_by_streams: that of % would be %, and its streams have come to %',
                new.pipeline, new.watermark, coalesce(allowed::text, 'nothing')
                using errcode = '23514', constraint = 'watermark_by_streams';
        end if;
    end if;
    return new;
end $$;
create trigger watermark_rises before insert or update of watermark on event_time
    for each row execute function guard_watermark();

create function guard_stream_time() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_op = 'UPDATE' and ((new.stream_id, new.opened_with) is distinct from (old.stream_id, old.opened_with)
            or coalesce(new.seen, '-infinity') < coalesce(old.seen, '-infinity')
            or coalesce(new.idle_at, '-infinity') < coalesce(old.idle_at, '-infinity')) then
        raise exception 'time_rises: that of stream % would go back', new.stream_id
            using errcode = '23514', constraint = 'time_rises';
    end if;
    if greatest(new.seen, new.idle_at) > clock_timestamp() then
        raise exception 'not_ahead_of_clock: stream % would have come to %', new.stream_id, greatest(new.seen, new.idle_at)
            using errcode = '23514', constraint = 'not_ahead_of_clock';
    end if;
    return new;
end $$;
create trigger time_rises before insert or update on stream_time for each row execute function guard_stream_time();

-- A plan writes down the watermark of its moment, or a lower one that has risen meanwhile, and nobody changes it.
create function guard_batch_watermark() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    of_pipeline timestamptz := (select e.watermark from lockstep.event_time e where e.pipeline = new.pipeline and new.lane = 'live');
begin
    if (case when tg_op = 'UPDATE' then new.watermark is distinct from old.watermark
            when of_pipeline is null then new.watermark is not null
            else new.watermark is null or new.watermark > of_pipeline end) then
        raise exception 'watermark_of_plan: batch % is not judged by the watermark of its plan', new.batch_id
            using errcode = '23514', constraint = 'watermark_of_plan';
    end if;
    return new;
end $$;
create trigger watermark_of_plan before insert or update of watermark on batch
    for each row execute function guard_batch_watermark();

-- Offsets are judged by the batch that claims them for the first time: a live one by its plan's watermark, a fill by none.
create function guard_judging() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_op <> 'INSERT' then
        if tg_op = 'UPDATE' and old.admitted_by is null and new.admitted_by is not null
                and (old.stream_id, old.offsets, old.watermark) = (new.stream_id, new.offsets, new.watermark)
                and exists (select from lockstep.decision d join lockstep.stream s using (pipeline)
                    where d.decision_id = new.admitted_by and d.kind = 'admit-late' and s.stream_id = new.stream_id) then
            return new;
        end if;
        raise exception 'judged_stays: % of stream % is judged', old.offsets, old.stream_id
            using errcode = '23514', constraint = 'judged_stays';
    end if;
    if new.admitted_by is not null or not exists (
            select from lockstep.claim k join lockstep.batch b using (batch_id)
            where k.stream_id = new.stream_id and k.offsets @> new.offsets
              and new.watermark = case b.lane when 'live' then coalesce(b.watermark, '-infinity') when 'fill' then '-infinity' end) then
        raise exception 'judged_by_plan: % of stream % is not judged by the watermark of a plan that claims it',
            new.offsets, new.stream_id using errcode = '23514', constraint = 'judged_by_plan';
    end if;
    return new;
end $$;
create trigger judged_stays before insert or update or delete on judged for each row execute function guard_judging();

-- A window is shown once the watermark has passed it. Then each change is one revision more, and none is used twice.
create function guard_window() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_op = 'DELETE' then
        raise exception 'window_stays: % of %', old.key, old.target using errcode = '23514', constraint = 'window_stays';
    end if;
    if (case tg_op when 'INSERT' then new.revision <> 0 else new.revision not in (old.revision, old.revision + 1)
            or (new.target, new.key, new.ends) is distinct from (old.target, old.key, old.ends) end) then
        raise exception 'revision_by_one: window % of % would have revision %', new.key, new.target, new.revision
            using errcode = '23514', constraint = 'revision_by_one';
    end if;
    if new.revision = 1 and old.revision = 0 and not exists (
            select from lockstep.event_time e join lockstep.target_owner o using (pipeline)
            where o.store = '' and o.target = new.target and e.watermark >= new.ends) then
        raise exception 'shown_when_passed: window % of % ends at %, which the watermark has not passed', new.key, new.target, new.ends
            using errcode = '23514', constraint = 'shown_when_passed';
    end if;
    return new;
end $$;
create trigger revision_by_one before insert or update or delete on window_state for each row execute function guard_window();

-- Only what was judged is late, and it is late by that judgement.
create function guard_late() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    stray record;
begin
    select a.* into stray from added a left join lateral (
        select j.* from lockstep.judged j where j.stream_id = a.stream_id and lower(j.offsets) <= a."offset"
        order by lower(j.offsets) desc limit 1) j on true
    where not coalesce(j.offsets @> a."offset" and j.watermark = a.watermark and j.admitted_by is null
        and a.window_end <= j.watermark, false) limit 1;
    if found then
        raise exception 'late_by_judgement: offset % of stream % was not judged late for the window until %',
            stray."offset", stray.stream_id, stray.window_end using errcode = '23514', constraint = 'late_by_judgement';
    end if;
    return null;
end $$;
create trigger late_by_judgement after insert on late referencing new table as added
    for each statement execute function guard_late();

-- A late record stays, until a replay judges its segment again.
create function guard_late_gone() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    stray record;
begin
    select g.* into stray from gone g where tg_op = 'UPDATE' or not exists (
        select from lockstep.claim k
        where k.stream_id = g.stream_id and k.offsets @> g."offset" and k.expects = 'batch') limit 1;
    if found then
        raise exception '%: offset % of stream %', tg_name, stray."offset", stray.stream_id
            using errcode = '23514', constraint = tg_name;
    end if;
    return null;
end $$;
create trigger late_stays after delete on late referencing old table as gone
    for each statement execute function guard_late_gone();
create trigger late_is_not_changed after update on late referencing old table as gone
    for each statement execute function guard_late_gone();

-- The moment at which the wall clock of a zone shows a reading: the first of two, or the moment of the change that leaves it out.
create function first_moment(reading timestamp, zone text) returns timestamptz
language sql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
    select case when earlier.moment at time zone zone = reading then least(earlier.moment, usual.moment) else usual.moment end
    from (select reading at time zone zone as moment) usual
    cross join lateral (
        select (reading - ((usual.moment - interval '3 hours') at time zone zone
            - (usual.moment - interval '3 hours') at time zone 'UTC')) at time zone 'UTC' as moment) earlier
$$;

-- A feed is told of the windows that one transaction shows, too.
do $$
declare
    kinds text := (select pg_get_constraintdef(oid) from pg_constraint
        where conrelid = 'lockstep.change_set'::regclass and conname = 'change_set_kind_check');
begin
    if strpos(kinds, '''manual''::text') = 0 then
        raise exception 'change_set_kind_check is not as migration 0040 made it: %', kinds;
    end if;
    alter table change_set drop constraint change_set_kind_check;
    execute format('alter table change_set add constraint change_set_kind_check %s',
        replace(kinds, '''manual''::text', '''manual''::text, ''emission''::text'));
end $$;

create function open_emission(of_target text) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    misses text := lockstep.feed_misses(of_target);
begin
    if misses is null then
        insert into lockstep.change_set (target, kind) values (of_target, 'emission');
    end if;
    return misses;
end $$;

-- A kind of decision more.
do $$
declare
    kinds text := (select pg_get_constraintdef(oid) from pg_constraint
        where conrelid = 'lockstep.decision'::regclass and conname = 'decision_kind_check');
begin
    if strpos(kinds, '''hand-over''::text') = 0 then
        raise exception 'decision_kind_check is not as migration 0040 made it: %', kinds;
    end if;
    alter table decision drop constraint decision_kind_check;
    execute format('alter table decision add constraint decision_kind_check %s',
        replace(kinds, '''hand-over''::text', '''hand-over''::text, ''admit-late''::text'));
end $$;

grant select on event_time, stream_time, judged, window_state, late
    to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
grant insert on event_time to lockstep_planner;
grant update (admitted_by) on judged to lockstep_planner;
grant insert on stream_time, judged, window_state, late to lockstep_committer;
grant update (watermark, moved_at) on event_time to lockstep_committer;
grant update (seen, idle_at) on stream_time to lockstep_committer;
grant update (revision) on window_state to lockstep_committer;
grant delete on late to lockstep_committer;
revoke execute on function guard_watermark, guard_stream_time, guard_batch_watermark, guard_judging, guard_window, guard_late,
    guard_late_gone, first_moment, open_emission from public;
grant execute on function first_moment to lockstep_committer, lockstep_stager, lockstep_reader;
grant execute on function open_emission to lockstep_committer;
