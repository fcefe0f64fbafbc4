-- A stream of another log, and one of a partition that is new, begins where a decision of the same transaction says. A stream is
-- closed by a decision, too. What upkeep has passed stays passed.

-- Whether a decision says where a stream begins. A log that goes on in another stream needs none: begins_where_it_ended.
create function names_start(of_kind text, detail jsonb, of_decision bigint, its stream) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce(case of_kind
        when 'topic' then detail #> array['topics', its.topic, its.partition::text] = to_jsonb(its.start_offset)
        when 'adopt' then detail -> 'from' @> jsonb_build_array(
            jsonb_build_object('topic', its.topic, 'partition', its.partition, 'offset', its.start_offset))
        when 'retire' then detail -> 'opened' @> jsonb_build_array(
                jsonb_build_object('partition', its.partition, 'start_offset', its.start_offset))
            and exists (
                select from lockstep.stream o where o.pipeline = its.pipeline and o.topic = its.topic
                    and detail -> 'retired' @> jsonb_build_array(jsonb_build_object('stream_id', o.stream_id)))
        when 'move' then (detail #>> '{to,cluster_id}', detail #>> '{to,topic}', detail #>> '{to,topic_id}')
                = (its.cluster_id, its.topic, its.topic_id)
            and detail -> 'moved' @> jsonb_build_array(
                jsonb_build_object('partition', its.partition, 'offset', its.start_offset))
        when 'hand-over' then lockstep.name_now(detail ->> 'to', of_decision) = its.pipeline
            and detail #> array['positions', its.partition::text] = to_jsonb(its.start_offset)
        end, false)
$$;

-- Whether a decision closes a stream. Older hand-overs name the positions alone.
create function names_end(of_kind text, detail jsonb, of_decision bigint, its stream) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce(case
        when of_kind = 'move' then detail -> 'moved' @> jsonb_build_array(jsonb_build_object('stream_id', its.stream_id))
        when of_kind = 'hand-over' and not detail ? 'retired' then detail -> 'positions' ? its.partition::text
            and lockstep.name_now(detail ->> 'to', of_decision) = its.pipeline
        when of_kind in ('retire', 'hand-over')
        then detail -> 'retired' @> jsonb_build_array(jsonb_build_object('stream_id', its.stream_id))
        end, false)
$$;

-- Whether the log of a stream that growth has closed goes on in a newer one.
create function goes_on(its stream) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from lockstep.stream n where n.pipeline = its.pipeline and n.topic = its.topic and n.partition = its.partition
            and n.incarnation = its.incarnation and n.epoch > its.epoch and n.start_offset = its.position)
$$;
grant execute on function names_start(text, jsonb, bigint, stream), names_end(text, jsonb, bigint, stream), goes_on(stream)
to lockstep_reader;

-- The first streams of a line of logs begin where the definition says, which is not here yet.
create function guard_beginnings() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    with before as materialized (
        select s.* from lockstep.stream s
        where s.pipeline in (select a.pipeline from added a) and not exists (select from added n where n.stream_id = s.stream_id))
    -- a partition that is there again in another log, from its first record on, is new
    select a.pipeline, a.topic, a.partition, a.start_offset, o.position, o.topic as was into wrong
    from added n join lockstep.stream a using (stream_id) left join lateral (
        select b.* from before b where b.pipeline = a.pipeline and b.partition = a.partition
            and coalesce(b.first_topic, b.topic) = coalesce(a.first_topic, a.topic)
        order by b.incarnation desc, b.epoch desc limit 1) o on true
    where exists (
            select from before b where b.pipeline = a.pipeline
                and coalesce(b.first_topic, b.topic) = coalesce(a.first_topic, a.topic))
      and case when o.stream_id is null or (o.cluster_id, o.topic_id) <> (a.cluster_id, a.topic_id) then a.start_offset > 0
        else o.incarnation <> a.incarnation end
      and not exists (
        select from lockstep.decision d
        where d.pipeline = a.pipeline and d.kind in ('topic', 'retire', 'move', 'hand-over')
          and lockstep.names_start(d.kind, d.detail, d.decision_id, a) and lockstep.is_of_this_transaction(d.xmin))
    order by a.topic, a.partition limit 1;
    if found then
        raise exception 'begins_by_decision: no decision of this transaction lets % read %-% from offset %, %: lockstep retire %',
            wrong.pipeline, wrong.topic, wrong.partition, wrong.start_offset, coalesce(
                'and its stream of ' || wrong.was || ' ended at ' || wrong.position, 'and the partition is new'), wrong.pipeline
            using errcode = '23514', constraint = 'begins_by_decision';
    end if;
    return null;
end $$;
create trigger begins_by_decision after insert on stream referencing new table as added
for each statement when (current_user <> 'lockstep_owner'::name) execute function guard_beginnings();

create function guard_end() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    its lockstep.stream;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select s.* into its from lockstep.stream s where s.stream_id = new.stream_id;
    if not exists (
        select from lockstep.decision d
        where d.pipeline = its.pipeline and d.kind in ('retire', 'move', 'hand-over', 'grow')
          and case d.kind when 'grow' then lockstep.goes_on(its) else lockstep.names_end(d.kind, d.detail, d.decision_id, its) end
          and lockstep.is_of_this_transaction(d.xmin)) then
        raise exception 'ends_by_decision: no decision of this transaction closes stream % of %-%, which stands at %: lockstep retire %',
            its.stream_id, its.topic, its.partition, its.position, its.pipeline
            using errcode = '23514', constraint = 'ends_by_decision';
    end if;
    return null;
end $$;
create constraint trigger ends_by_decision after update of retired_at on stream
deferrable initially deferred for each row
when (old.retired_at is distinct from new.retired_at and current_user <> 'lockstep_owner'::name) execute function guard_end();

create function guard_upkept() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception 'upkept_stays: upkeep has passed offset % of stream %, and goes on from there', old.upkept_below, old.stream_id
        using errcode = '23514', constraint = 'upkept_stays';
end $$;
create trigger upkept_stays before update of upkept_below on stream
for each row when (new.upkept_below < old.upkept_below) execute function guard_upkept();
