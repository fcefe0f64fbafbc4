-- What one topic says of a key is compared with what it said itself. Only the source's log orders the deletions of two topics.

create or replace function guard_key_of_topic() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    moved record;
begin
    select o.topic, n.topic as other into moved
    from lockstep.stream o join lockstep.stream n on n.pipeline = o.pipeline
        and coalesce(n.first_topic, n.topic) <> coalesce(o.first_topic, o.topic)
    where o.stream_id = old.stream_id and n.stream_id = new.stream_id
      and coalesce(new."order" <= old."order", true);
    if found then
        raise exception 'key_of_one_topic: a key of % was deleted in topic % and stands in topic %',
            old.target, moved.topic, moved.other using errcode = '23514', constraint = 'key_of_one_topic';
    end if;
    return new;
end $$;

create or replace function guard_tombstone() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    if exists (
        select 1 from lockstep.claim k
        where k.stream_id = old.stream_id and lower(k.offsets) <= old."offset" and upper(k.offsets) > old."offset") then
        return old;
    end if;
    if exists (
        select 1 from lockstep.claim k join lockstep.stream s using (stream_id)
        join lockstep.stream its on its.stream_id = old.stream_id and its.pipeline = s.pipeline
        where (k.stream_id = old.stream_id and upper(k.offsets) <= old."offset")
           or (coalesce(s.first_topic, s.topic) = coalesce(its.first_topic, its.topic) and s.epoch < its.epoch)) then
        raise exception 'dead_stay_dead: a batch under way reads records older than the deletion at offset % of stream %',
            old."offset", old.stream_id using errcode = '23514', constraint = 'dead_stay_dead';
    end if;
    return old;
end $$;
