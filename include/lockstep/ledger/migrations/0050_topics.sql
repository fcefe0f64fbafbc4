-- A pipeline reads several topics: each but its first is opened by a decision, and goes on where it was left.

-- One kind of decisions more, beside whatever kinds there are.
do $$
declare
    kinds text := (select pg_get_constraintdef(oid) from pg_constraint
        where conrelid = 'lockstep.decision'::regclass and conname = 'decision_kind_check');
begin
    if strpos(kinds, '''adopt''::text') = 0 then
        raise exception 'decision_kind_check is not as migration 0048 made it: %', kinds;
    end if;
    alter table decision drop constraint decision_kind_check;
    execute format('alter table decision add constraint decision_kind_check %s',
        replace(kinds, '''adopt''::text', '''adopt''::text, ''topic''::text'));
end $$;

-- The decision names each topic, and from which offset each of its partitions is read.
alter table decision add constraint topic_is_told check (kind <> 'topic' or (
    coalesce(jsonb_typeof(detail -> 'topics') = 'object', false)
    and coalesce(jsonb_path_exists(detail, '$.topics.*'), false)
    and not jsonb_path_exists(detail, '$.topics.* ? (@.type() <> "object")')));

-- A topic is new to a pipeline that reads others: the decision stands before its streams, and says where they begin.
create function guard_topics() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    select a.pipeline, a.topic, a.partition, a.start_offset into wrong
    from added a
    where exists (select from lockstep.stream o where o.pipeline = a.pipeline and o.topic <> a.topic)
      and not exists (
        select from lockstep.stream o where o.pipeline = a.pipeline and o.topic = a.topic
            and not exists (select from added n where n.stream_id = o.stream_id))
      and not exists (
        select from lockstep.decision d where d.pipeline = a.pipeline and d.kind = 'topic'
            and d.detail #> array['topics', a.topic, a.partition::text] = to_jsonb(a.start_offset))
    limit 1;
    if found then
        raise exception 'topic_by_decision: no decision lets % read %-% from offset %',
            wrong.pipeline, wrong.topic, wrong.partition, wrong.start_offset
            using errcode = '23514', constraint = 'topic_by_decision';
    end if;
    return null;
end $$;
create trigger topic_by_decision after insert on stream referencing new table as added
    for each statement execute function guard_topics();

-- Within one incarnation the next stream begins where the one before it ended: no offset is left out, none is read twice.
create function guard_succession() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    select a.topic, a.partition, a.start_offset, o.position into wrong
    from added a cross join lateral (
        select s.position from lockstep.stream s
        where s.pipeline = a.pipeline and s.topic = a.topic and s.partition = a.partition
          and s.incarnation = a.incarnation and s.epoch < a.epoch
        order by s.epoch desc limit 1) o
    where o.position <> a.start_offset limit 1;
    if found then
        raise exception 'begins_where_it_ended: %-% begins at %, and the stream before it ended at %',
            wrong.topic, wrong.partition, wrong.start_offset, wrong.position
            using errcode = '23514', constraint = 'begins_where_it_ended';
    end if;
    return null;
end $$;
create trigger begins_where_it_ended after insert on stream referencing new table as added
    for each statement execute function guard_succession();

-- Two topics of a pipeline say nothing about which record of a key is newer, so a deletion stays with its topic.
create function guard_key_of_topic() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    moved record;
begin
    select o.topic, n.topic as other into moved
    from lockstep.stream o join lockstep.stream n on n.pipeline = o.pipeline and n.topic <> o.topic
    where o.stream_id = old.stream_id and n.stream_id = new.stream_id;
    if found then
        raise exception 'key_of_one_topic: a key of % was deleted in topic % and stands in topic %',
            old.target, moved.topic, moved.other using errcode = '23514', constraint = 'key_of_one_topic';
    end if;
    return new;
end $$;
create trigger key_of_one_topic before update of stream_id on tombstone
    for each row when (new.stream_id <> old.stream_id) execute function guard_key_of_topic();
