-- One log: offsets behind a position are read again only from the log that they were read from.

-- The leader epoch under which a plan last saw the log, whole up to the position. Null: no plan has seen one yet.
alter table stream add column leader_epoch int check (leader_epoch >= 0);
grant update (leader_epoch) on stream to lockstep_planner;

-- A recreated topic or a truncated log gives its partitions a new incarnation. A successor by growth keeps the old one.
create function is_replaced(stream int) returns boolean language sql stable set search_path = pg_catalog, pg_temp as $$
    select exists (
        select 1 from lockstep.stream s join lockstep.stream n on n.pipeline = s.pipeline and n.topic = s.topic
            and n.partition = s.partition and n.incarnation > s.incarnation
        where s.stream_id = stream)
$$;

-- Below this offset a truncated log holds records that an older incarnation has read; 0 where there is none.
create function read_before(stream int) returns bigint language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce(min(i.start_offset), 0) from lockstep.stream s join lockstep.stream i on i.pipeline = s.pipeline
        and i.topic = s.topic and i.partition = s.partition and i.incarnation = s.incarnation
    where s.stream_id = stream and exists (
        select 1 from lockstep.stream o where o.pipeline = s.pipeline and o.topic = s.topic and o.partition = s.partition
            and o.incarnation < s.incarnation and (o.cluster_id, o.topic_id) = (s.cluster_id, s.topic_id))
$$;

-- One look for each statement: a batch claims, and a time is resolved for, many streams at once.
create function guard_claimed_log() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    select a.stream_id, a.offsets, s.start_offset, lockstep.is_replaced(s.stream_id) as replaced into wrong
    from added a join lockstep.stream s using (stream_id)
    where lockstep.is_replaced(s.stream_id) or lower(a.offsets) < lockstep.read_before(s.stream_id) limit 1;
    if found and wrong.replaced then
        raise exception 'one_log: % of stream % cannot be read again: its partition has a newer incarnation',
            wrong.offsets, wrong.stream_id using errcode = '23514', constraint = 'one_log';
    elsif found then
        raise exception 'one_log: % of stream % begins before its start %, where an older incarnation of the log was read',
            wrong.offsets, wrong.stream_id, wrong.start_offset using errcode = '23514', constraint = 'one_log';
    end if;
    return null;
end $$;
create trigger one_log after insert on claim referencing new table as added
    for each statement execute function guard_claimed_log();

create function guard_resolved_log() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    select a.stream_id, a.at into wrong from added a where lockstep.is_replaced(a.stream_id) limit 1;
    if found then
        raise exception 'one_log: % is no time of stream %: its partition has a newer incarnation', wrong.at, wrong.stream_id
            using errcode = '23514', constraint = 'one_log';
    end if;
    return null;
end $$;
create trigger one_log after insert on boundary referencing new table as added
    for each statement execute function guard_resolved_log();

-- Losses and skips speak of the log that is there.
create function guard_decided_log() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if lockstep.is_replaced(new.stream_id) then
        raise exception 'one_log: % of stream % is no % of today''s log: its partition has a newer incarnation',
            new.offsets, new.stream_id, new.kind using errcode = '23514', constraint = 'one_log';
    end if;
    return null;
end $$;
create trigger one_log after insert on coverage
    for each row when (new.kind <> 'batch') execute function guard_decided_log();

-- A new incarnation frees what the older ones had claimed, and one incarnation is one log.
create function guard_incarnation() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    select a.stream_id, o.stream_id as other, a.incarnation > o.incarnation as newer into wrong
    from added a join lockstep.stream o on o.pipeline = a.pipeline and o.topic = a.topic and o.partition = a.partition
    where (o.incarnation = a.incarnation and (o.cluster_id, o.topic_id) <> (a.cluster_id, a.topic_id))
       or o.incarnation > a.incarnation
       or (o.incarnation < a.incarnation and exists (select 1 from lockstep.claim k where k.stream_id = o.stream_id))
    limit 1;
    if found then
        raise exception 'one_log: stream % follows stream %, %', wrong.stream_id, wrong.other,
            case when wrong.newer then 'which a batch still claims' else 'which is of a newer or of another log' end
            using errcode = '23514', constraint = 'one_log';
    end if;
    return null;
end $$;
create trigger one_log after insert on stream referencing new table as added
    for each statement execute function guard_incarnation();
