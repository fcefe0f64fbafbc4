-- A run over many partitions sealed each of its links by statements of its own, and asked of each claim whether its log was
-- recreated. Links are computed one behind the other still, and kept together; claims are asked where a partition has two logs.

create or replace function seal(of_pipeline text, most integer) returns integer
    language plpgsql security definer set join_collapse_limit = 1 set plan_cache_mode = force_generic_plan
    set search_path = pg_catalog, pg_temp as $$
declare
    last_number bigint;
    last_digest text;
    waits record;
    links int := 0;
    places tid[];
    batches bigint[];
    streams int[];
    decisions bigint[];
    digests text[];
begin
    perform from lockstep.pipeline where name = of_pipeline for no key update;
    select number, digest into last_number, last_digest
    from lockstep.link where pipeline = of_pipeline order by number desc limit 1;
    if not found then
        last_number := 0;
        last_digest := '';
    end if;
    for waits in
        select w.ctid as place, w.batch_id, w.stream_id, w.decision_id,
            case when w.decision_id is null
                then (select r.record from lockstep.committed_record r where r.batch_id = w.batch_id and r.stream_id = w.stream_id)
                else (select r.record from lockstep.decided_record r where r.decision_id = w.decision_id) end as record
        from lockstep.unsealed w
        left join lockstep.commit c on c.batch_id = w.batch_id and c.stream_id = w.stream_id
        left join lockstep.batch b on b.batch_id = w.batch_id
        left join lockstep.decision d on d.decision_id = w.decision_id
        where w.pipeline = of_pipeline and (w.decision_id is not null or b.state <> 'planned')
        order by coalesce(c.at, d.at), w.batch_id, w.stream_id, w.decision_id limit most
    loop
        if waits.record is null then
            raise exception 'batch %, stream %, decision %: there is nothing to seal', waits.batch_id, waits.stream_id, waits.decision_id
                using errcode = 'P0002';
        end if;
        last_digest := encode(sha256(convert_to(last_digest || e'\n' || waits.record, 'UTF8')), 'hex');
        links := links + 1;
        places[links] := waits.place;
        batches[links] := waits.batch_id;
        streams[links] := waits.stream_id;
        decisions[links] := waits.decision_id;
        digests[links] := last_digest;
    end loop;
    insert into lockstep.link (pipeline, number, batch_id, stream_id, decision_id, digest)
    select of_pipeline, last_number + n.place, n.batch_id, n.stream_id, n.decision_id, n.digest
    from unnest(batches, streams, decisions, digests) with ordinality n (batch_id, stream_id, decision_id, digest, place);
    delete from lockstep.unsealed where ctid = any (places);
    return links;
end $$;

create or replace function guard_claimed_log() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    with recreated as materialized (
        select a.stream_id, a.offsets, s.start_offset from added a join lockstep.stream s using (stream_id)
        where exists (
            select from lockstep.stream o where o.pipeline = s.pipeline and o.partition = s.partition
                and coalesce(o.first_topic, o.topic) = coalesce(s.first_topic, s.topic) and o.incarnation <> s.incarnation))
    select r.stream_id, r.offsets, r.start_offset, lockstep.is_replaced(r.stream_id) as replaced into wrong
    from recreated r
    where lockstep.is_replaced(r.stream_id) or lower(r.offsets) < lockstep.read_before(r.stream_id) limit 1;
    if found and wrong.replaced then
        raise exception 'one_log: % of stream % cannot be read again: its partition has a newer incarnation',
            wrong.offsets, wrong.stream_id using errcode = '23514', constraint = 'one_log';
    elsif found then
        raise exception 'one_log: % of stream % begins before its start %, where an older incarnation of the log was read',
            wrong.offsets, wrong.stream_id, wrong.start_offset using errcode = '23514', constraint = 'one_log';
    end if;
    return null;
end $$;
