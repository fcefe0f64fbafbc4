-- Below where a table was handed over, another pipeline has read the log. The decision says so, whichever version wrote it.
create index hand_over_of_pipeline on decision (pipeline, decision_id) where kind = 'hand-over';

-- Below this offset a log holds records that an older incarnation, or the pipeline that handed its table over, has read, or
-- copies of them; 0 where there is none.
create or replace function read_before(stream integer) returns bigint
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    its lockstep.stream := (select s from lockstep.stream s where s.stream_id = stream);
    is_renewed boolean := exists (
        select from lockstep.stream o where o.pipeline = its.pipeline and o.partition = its.partition
            and coalesce(o.first_topic, o.topic) = coalesce(its.first_topic, its.topic) and o.incarnation < its.incarnation);
begin
    return (
        select coalesce(min(i.start_offset), 0) from lockstep.stream i
        where i.pipeline = its.pipeline and i.topic = its.topic and i.partition = its.partition
            and i.incarnation = its.incarnation and case
            when is_renewed then exists (
                select from lockstep.stream o where o.pipeline = its.pipeline and o.partition = its.partition
                    and coalesce(o.first_topic, o.topic) = coalesce(its.first_topic, its.topic)
                    and o.incarnation < its.incarnation and (o.cluster_id, o.topic_id) = (its.cluster_id, its.topic_id))
              or exists (
                select from lockstep.decision d where d.pipeline = its.pipeline and d.kind = 'move'
                    and d.detail #>> '{to,topic_id}' = its.topic_id and d.detail #>> '{to,cluster_id}' = its.cluster_id)
            else exists (
                select from lockstep.decision d where d.pipeline = its.pipeline and d.kind = 'hand-over'
                    and lockstep.name_now(d.detail ->> 'to', d.decision_id) = its.pipeline
                    and (d.detail #>> array['positions', its.partition::text])::bigint = i.start_offset)
            end);
end $$;

-- Few pipelines have a partition that was recreated, or took a table over. Only their claims are compared.
create or replace function guard_claimed_log() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    with doubtful as materialized (
        select a.stream_id, a.offsets, s.start_offset from added a join lockstep.stream s using (stream_id)
        where exists (
            select from lockstep.stream o where o.pipeline = s.pipeline and o.partition = s.partition
                and coalesce(o.first_topic, o.topic) = coalesce(s.first_topic, s.topic) and o.incarnation <> s.incarnation)
           or exists (select from lockstep.decision d where d.pipeline = s.pipeline and d.kind = 'hand-over'))
    select r.stream_id, r.offsets, r.start_offset, lockstep.is_replaced(r.stream_id) as replaced into wrong
    from doubtful r
    where lockstep.is_replaced(r.stream_id) or lower(r.offsets) < lockstep.read_before(r.stream_id) limit 1;
    if found and wrong.replaced then
        raise exception 'one_log: % of stream % cannot be read again: its partition has a newer incarnation',
            wrong.offsets, wrong.stream_id using errcode = '23514', constraint = 'one_log';
    elsif found then
        raise exception 'one_log: % of stream % begins before its start %: an older incarnation, or a former owner, has read it',
            wrong.offsets, wrong.stream_id, wrong.start_offset using errcode = '23514', constraint = 'one_log';
    end if;
    return null;
end $$;
