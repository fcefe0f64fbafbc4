-- Postgres takes the rows of a new batch for one, and compared all of its ranges with all of its rows. Each range is looked up by
-- itself now, and a whole batch is told by two counts: a commit is of a range, and each range has one at most. The guards of new streams look once
-- for each topic, where they went through all streams of the ledger for each partition.

create or replace function guard_closing() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if exists (select 1 from lockstep.claim c where c.batch_id = new.batch_id) then
        raise exception 'no_claim_left: batch % closes and still claims offsets', new.batch_id
            using errcode = '23514', constraint = 'no_claim_left';
    end if;
    if new.state = 'committed' and (select count(*) from lockstep.batch_range r where r.batch_id = new.batch_id)
        <> (select count(*) from lockstep.commit c where c.batch_id = new.batch_id) then
        raise exception 'committed_whole: batch % closes without a commit of each of its ranges', new.batch_id
            using errcode = '23514', constraint = 'committed_whole';
    end if;
    if new.state = 'abandoned' and exists (
        select 1 from lockstep.commit c join lockstep.attempt a using (batch_id, token)
        where c.batch_id = new.batch_id and a.unit = 'batch') then
        raise exception 'committed_whole: batch % was committed and cannot be abandoned', new.batch_id
            using errcode = '23514', constraint = 'committed_whole';
    end if;
    return null;
end $$;

create or replace function guard_contents() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    select u.batch_id, u.stream_id into wrong from added a join lockstep.result u using (batch_id, token, stream_id)
    where u.rows_digest is null or u.rejects_digest is null limit 1;
    if found then
        raise exception 'contents_known: stream % of batch % has no digest of its contents', wrong.stream_id, wrong.batch_id
            using errcode = '23514', constraint = 'contents_known';
    end if;
    select u.batch_id, u.stream_id into wrong from added a join lockstep.result u using (batch_id, token, stream_id)
    cross join lateral (
        select coalesce(pg_catalog.sum(c.rows_digest), 0) as rows, coalesce(pg_catalog.sum(c.rejects_digest), 0) as rejects
        from lockstep.content c where c.batch_id = u.batch_id and c.stream_id = u.stream_id) p
    cross join lateral (
        select coalesce(pg_catalog.sum(m.rows_digest), 0) as rows, coalesce(pg_catalog.sum(m.rejects_digest), 0) as rejects
        from lockstep.manifest m where m.batch_id = u.batch_id and m.token = u.token and m.stream_id = u.stream_id) s
    where (p.rows, p.rejects) <> (u.rows_digest, u.rejects_digest)
       or (u.quarantined = 0 and (s.rows, s.rejects) <> (u.rows_digest, u.rejects_digest))
    limit 1;
    if found then
        raise exception 'contents_unchanged: the contents of stream % of batch % are not those that were staged',
            wrong.stream_id, wrong.batch_id using errcode = '23514', constraint = 'contents_unchanged';
    end if;
    return null;
end $$;

create or replace function guard_line() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    first_added int := (select min(stream_id) from added);
    wrong record;
begin
    with lines as materialized (
        select l.*, (
            select o.topic from lockstep.stream o
            where o.pipeline = l.pipeline and coalesce(o.first_topic, o.topic) = l.line and o.stream_id < first_added
            order by o.stream_id desc limit 1) as last,
            exists (
                select from lockstep.stream o where o.pipeline = l.pipeline and o.topic = l.topic
                    and coalesce(o.first_topic, o.topic) <> l.line) as is_of_another
        from (select distinct pipeline, topic, coalesce(first_topic, topic) as line from added) l)
    select a.pipeline, a.topic, a.partition, a.start_offset into wrong
    from added a join lines l on l.pipeline = a.pipeline and l.topic = a.topic and l.line = coalesce(a.first_topic, a.topic)
    where l.is_of_another or (coalesce(l.last, l.line) <> a.topic and not exists (
        select from lockstep.decision d cross join jsonb_to_recordset(d.detail -> 'moved') m (partition int, "offset" bigint)
        where d.decision_id = (
            select max(n.decision_id) from lockstep.decision n where n.pipeline = a.pipeline and n.kind = 'move')
            and d.detail #>> '{to,topic}' = a.topic
            and m.partition = a.partition and m.offset = a.start_offset))
    limit 1;
    if found then
        raise exception 'moved_by_decision: no decision lets % go on in %-% at offset %',
            wrong.pipeline, wrong.topic, wrong.partition, wrong.start_offset
            using errcode = '23514', constraint = 'moved_by_decision';
    end if;
    return null;
end $$;

create or replace function guard_topics() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    with lines as materialized (
        select l.*, exists (
                select from lockstep.stream o where o.pipeline = l.pipeline
                    and coalesce(o.first_topic, o.topic) <> l.line) as reads_others,
            exists (
                select from lockstep.stream o where o.pipeline = l.pipeline and coalesce(o.first_topic, o.topic) = l.line
                    and not exists (select from added n where n.stream_id = o.stream_id)) as was_read
        from (select distinct pipeline, coalesce(first_topic, topic) as line from added) l)
    select a.pipeline, a.topic, a.partition, a.start_offset into wrong
    from added a join lines l on l.pipeline = a.pipeline and l.line = coalesce(a.first_topic, a.topic)
    where l.reads_others and not l.was_read and not exists (
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
