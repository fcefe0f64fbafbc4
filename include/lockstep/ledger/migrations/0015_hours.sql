-- Hours: which are complete, the offsets that each is made of, what proves it, and to whom it was told.

create table complete_hour (
    pipeline text not null references pipeline,
    until timestamptz not null,
    proof jsonb not null,  -- the batches that owned its offsets then, and the losses that may have held records of it
    at timestamptz not null default clock_timestamp(),
    primary key (pipeline, until),
    constraint whole_hour check (date_trunc('hour', until at time zone 'UTC') = until at time zone 'UTC'),
    constraint hour_is_over check (until <= at)
);

-- A row for each stream that was open, also where nothing came in that hour: the next hour goes on from there.
create table hour_offsets (
    pipeline text not null,
    until timestamptz not null,
    stream_id int not null references stream,
    from_offset bigint not null,
    until_offset bigint not null,
    primary key (stream_id, until),
    foreign key (pipeline, until) references complete_hour,
    constraint half_open check (0 <= from_offset and from_offset <= until_offset)
);
create index offsets_of_hour on hour_offsets (pipeline, until);

create table hour_told (
    pipeline text not null,
    until timestamptz not null,
    told_by text not null,
    at timestamptz not null default clock_timestamp(),
    primary key (pipeline, until, told_by),
    foreign key (pipeline, until) references complete_hour
);

create function guard_hour() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
declare
    last timestamptz;
begin
    select max(h.until) into last from lockstep.complete_hour h where h.pipeline = new.pipeline;
    if new.until <> last + interval '1 hour' then
        raise exception 'hours_in_order: the hour until % of % comes behind the one until %', new.until, new.pipeline, last
            using errcode = '23514', constraint = 'hours_in_order';
    end if;
    return new;
end $$;
create trigger hours_in_order before insert on complete_hour for each row execute function guard_hour();

-- Nobody reads on in a stream whose partition has another incarnation now.
create function is_gone(stream int) returns boolean language sql stable set search_path = pg_catalog as $$
    select not exists (
        select 1 from lockstep.stream s join lockstep.stream o on o.pipeline = s.pipeline and o.topic = s.topic
            and o.partition = s.partition and o.incarnation = s.incarnation
        where s.stream_id = stream and o.retired_at is null)
$$;

-- Hours tile, stream by stream, and a batch or a loss has each of their offsets. A look for each statement, not for each row.
create function guard_hour_offsets() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
declare
    wrong record;
begin
    select a.*, l.reached into wrong from added a join lockstep.stream s using (stream_id)
    left join lateral (
        select h.until_offset from lockstep.hour_offsets h
        where h.stream_id = a.stream_id and h.until < a.until order by h.until desc limit 1) p on true
    cross join lateral (
        select coalesce(p.until_offset, case when exists (
            select 1 from lockstep.complete_hour h where h.pipeline = a.pipeline and h.until < a.until)
            then s.start_offset end) as reached) l
    where s.pipeline <> a.pipeline or a.from_offset <> l.reached limit 1;
    if found then
        raise exception 'hours_tile: the hour until % begins at % of stream %, and those before it end at %',
            wrong.until, wrong.from_offset, wrong.stream_id, wrong.reached using errcode = '23514', constraint = 'hours_tile';
    end if;
    select a.*, s.position, m.missing into wrong from added a join lockstep.stream s using (stream_id)
    cross join lateral (
        select int8multirange(int8range(a.from_offset, a.until_offset)) - coalesce(range_agg(c.offsets), '{}') as missing
        from lockstep.coverage c
        where c.stream_id = a.stream_id and (c.kind <> 'skipped' or lockstep.is_gone(a.stream_id))
          and lower(c.offsets) < a.until_offset and lower(c.offsets) >= coalesce((
            select lower(p.offsets) from lockstep.coverage p
            where p.stream_id = a.stream_id and lower(p.offsets) <= a.from_offset order by lower(p.offsets) desc limit 1), 0)) m
    where s.position < a.until_offset or not isempty(m.missing) limit 1;
    if found then
        raise exception 'hour_is_covered: % of stream %, which is at %, is missing in the hour until %',
            wrong.missing, wrong.stream_id, wrong.position, wrong.until
            using errcode = '23514', constraint = 'hour_is_covered';
    end if;
    return null;
end $$;
create trigger hour_is_covered after insert on hour_offsets referencing new table as added
    for each statement execute function guard_hour_offsets();

create function guard_whole_hour() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
    if exists (
        select 1 from lockstep.stream s where s.pipeline = new.pipeline and s.retired_at is null and not exists (
            select 1 from lockstep.hour_offsets o where o.stream_id = s.stream_id and o.until = new.until)) then
        raise exception 'hour_is_whole: the hour until % of % says nothing of an open stream', new.until, new.pipeline
            using errcode = '23514', constraint = 'hour_is_whole';
    end if;
    return null;
end $$;
create constraint trigger hour_is_whole after insert on complete_hour
    deferrable initially deferred for each row execute function guard_whole_hour();

grant select on complete_hour, hour_offsets, hour_told
    to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
grant insert on complete_hour, hour_offsets to lockstep_planner;
grant insert on hour_told to lockstep_committer;
