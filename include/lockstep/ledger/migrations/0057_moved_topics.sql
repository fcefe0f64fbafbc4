-- A pipeline's topic was copied: the pipeline goes on in the copy, at offsets that a decision names.

-- The topic whose records the pipeline read first along this line of logs. Null: it is the stream's own topic. A move keeps it,
-- so that epochs and incarnations go on from one topic to the next.
alter table stream add column first_topic text;
alter table stream add constraint first_topic_is_another check (first_topic <> topic);
create unique index one_open_stream_a_line on stream (pipeline, coalesce(first_topic, topic), partition) where retired_at is null;
create unique index one_epoch_a_line on stream (pipeline, coalesce(first_topic, topic), partition, epoch);

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
        replace(kinds, '''adopt''::text', '''adopt''::text, ''move''::text'));
end $$;

-- The decision names the digest that was shown, both logs, and for each closed stream where it stood and where its successor begins.
alter table decision add constraint move_is_told check (kind <> 'move' or (
    coalesce(detail ->> 'digest' ~ '^[0-9a-f]{16}$', false)
    and coalesce(jsonb_path_exists(detail, '$.to ? (@.cluster_id.type() == "string" && @.topic.type() == "string"
        && @.topic_id.type() == "string")'), false)
    and coalesce(jsonb_path_exists(detail, '$.moved[*]'), false)
    and not jsonb_path_exists(detail, '$.moved[*] ? (!(@.stream_id.type() == "number" && @.partition.type() == "number"
        && @.position.type() == "number" && @.offset.type() == "number" && @.matched.type() == "number"))')));

-- Nothing is under way while a pipeline moves, and nothing begins meanwhile.
create function guard_move() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform from lockstep.pipeline p where p.name = new.pipeline for no key update;
    if exists (select from lockstep.batch b where b.pipeline = new.pipeline and b.state = 'planned')
        or exists (select from lockstep.request r where r.pipeline = new.pipeline and r.closed_at is null and not r.preview) then
        raise exception 'moved_at_rest: a batch or a request of % is not finished', new.pipeline
            using errcode = '23514', constraint = 'moved_at_rest';
    end if;
    return new;
end $$;
create trigger moved_at_rest before insert on decision for each row when (new.kind = 'move') execute function guard_move();

-- At the COMMIT, every open stream is the successor of a closed one, where the decision says, and of the next incarnation.
create function check_move() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    other int;
begin
    select coalesce(m.partition, n.partition) into other
    from jsonb_to_recordset(new.detail -> 'moved') m (stream_id int, partition int, position bigint, "offset" bigint)
    left join lockstep.stream o on o.stream_id = m.stream_id and o.pipeline = new.pipeline and o.partition = m.partition
        and o.position = m.position and o.retired_at >= now()  -- closed by this transaction
    full join (select * from lockstep.stream s where s.pipeline = new.pipeline and s.retired_at is null) n
        on n.partition = m.partition
    where (n.partition = o.partition and n.start_offset = m.offset and n.position = m.offset
        and n.incarnation = o.incarnation + 1 and n.epoch > o.epoch
        and coalesce(n.first_topic, n.topic) = coalesce(o.first_topic, o.topic)
        and (n.cluster_id, n.topic, n.topic_id) = (new.detail #>> '{to,cluster_id}', new.detail #>> '{to,topic}',
            new.detail #>> '{to,topic_id}')) is not true
    limit 1;
    if found then
        raise exception 'moved_as_decided: partition % of % does not go on where decision % says',
            other, new.pipeline, new.decision_id using errcode = '23514', constraint = 'moved_as_decided';
    end if;
    return null;
end $$;
create constraint trigger moved_as_decided after insert on decision deferrable initially deferred
    for each row when (new.kind = 'move') execute function check_move();

-- A line of logs goes on in another topic by a decision that names the offset, and a topic stays with its line.
create function guard_line() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    first_added int := (select min(stream_id) from added);
    wrong record;
begin
    select a.pipeline, a.topic, a.partition, a.start_offset into wrong
    from added a
    left join lateral (
        select o.topic from lockstep.stream o
        where o.pipeline = a.pipeline and coalesce(o.first_topic, o.topic) = coalesce(a.first_topic, a.topic)
            and o.stream_id < first_added
        order by o.stream_id desc limit 1) last on true
    where (coalesce(last.topic, a.first_topic, a.topic) <> a.topic and not exists (
        select from lockstep.decision d cross join jsonb_to_recordset(d.detail -> 'moved') m (partition int, "offset" bigint)
        where d.decision_id = (
            select max(n.decision_id) from lockstep.decision n where n.pipeline = a.pipeline and n.kind = 'move')
            and d.detail #>> '{to,topic}' = a.topic
            and m.partition = a.partition and m.offset = a.start_offset))
      or exists (
        select from lockstep.stream o where o.pipeline = a.pipeline and o.topic = a.topic
            and coalesce(o.first_topic, o.topic) <> coalesce(a.first_topic, a.topic))
    limit 1;
    if found then
        raise exception 'moved_by_decision: no decision lets % go on in %-% at offset %',
            wrong.pipeline, wrong.topic, wrong.partition, wrong.start_offset
            using errcode = '23514', constraint = 'moved_by_decision';
    end if;
    return null;
end $$;
create trigger moved_by_decision after insert on stream referencing new table as added
    for each statement execute function guard_line();

-- A stream is one incarnation for good, and its line is part of that.
create or replace function guard_stream() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if current_user = 'lockstep_owner' and old.pipeline <> new.pipeline
            and to_jsonb(old) - 'pipeline' = to_jsonb(new) - 'pipeline' then
        return new;
    end if;
    if (old.epoch, old.incarnation, old.start_offset, old.partition, old.topic, old.topic_id, old.cluster_id, old.pipeline,
            old.first_topic)
        is distinct from
       (new.epoch, new.incarnation, new.start_offset, new.partition, new.topic, new.topic_id, new.cluster_id, new.pipeline,
            new.first_topic) then
        raise exception 'closed_once: stream % is one incarnation for good', old.stream_id
            using errcode = '23514', constraint = 'closed_once';
    end if;
    if old.retired_at is not null then
        raise exception 'closed_once: stream % is retired', old.stream_id
            using errcode = '23514', constraint = 'closed_once';
    end if;
    return new;
end $$;

-- What follows was keyed by topic. It goes by the line now: another log of it, of whatever topic, is a newer incarnation.
create or replace function is_replaced(stream integer) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select exists (
        select 1 from lockstep.stream s join lockstep.stream n on n.pipeline = s.pipeline
            and coalesce(n.first_topic, n.topic) = coalesce(s.first_topic, s.topic)
            and n.partition = s.partition and n.incarnation > s.incarnation
        where s.stream_id = stream)
$$;

-- Below this offset a log holds records that an older incarnation has read, or copies of them; 0 where there is none.
create or replace function read_before(stream integer) returns bigint
language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce(min(i.start_offset), 0) from lockstep.stream s join lockstep.stream i on i.pipeline = s.pipeline
        and i.topic = s.topic and i.partition = s.partition and i.incarnation = s.incarnation
    where s.stream_id = stream and exists (
        select 1 from lockstep.stream o where o.pipeline = s.pipeline and o.partition = s.partition
            and coalesce(o.first_topic, o.topic) = coalesce(s.first_topic, s.topic) and o.incarnation < s.incarnation
            and ((o.cluster_id, o.topic_id) = (s.cluster_id, s.topic_id) or exists (
                select 1 from lockstep.decision d where d.pipeline = s.pipeline and d.kind = 'move'
                    and d.detail #>> '{to,topic_id}' = s.topic_id and d.detail #>> '{to,cluster_id}' = s.cluster_id)))
$$;

create or replace function guard_incarnation() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    select a.stream_id, o.stream_id as other, a.incarnation > o.incarnation as newer into wrong
    from added a join lockstep.stream o on o.pipeline = a.pipeline and o.partition = a.partition
        and coalesce(o.first_topic, o.topic) = coalesce(a.first_topic, a.topic)
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

create or replace function guard_topics() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    select a.pipeline, a.topic, a.partition, a.start_offset into wrong
    from added a
    where exists (
        select from lockstep.stream o where o.pipeline = a.pipeline
            and coalesce(o.first_topic, o.topic) <> coalesce(a.first_topic, a.topic))
      and not exists (
        select from lockstep.stream o where o.pipeline = a.pipeline
            and coalesce(o.first_topic, o.topic) = coalesce(a.first_topic, a.topic)
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

create or replace function guard_key_of_topic() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    moved record;
begin
    select o.topic, n.topic as other into moved
    from lockstep.stream o join lockstep.stream n on n.pipeline = o.pipeline
        and coalesce(n.first_topic, n.topic) <> coalesce(o.first_topic, o.topic)
    where o.stream_id = old.stream_id and n.stream_id = new.stream_id;
    if found then
        raise exception 'key_of_one_topic: a key of % was deleted in topic % and stands in topic %',
            old.target, moved.topic, moved.other using errcode = '23514', constraint = 'key_of_one_topic';
    end if;
    return new;
end $$;

revoke execute on function guard_move, check_move, guard_line from public;
