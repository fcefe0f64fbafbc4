-- The chain: what was committed and decided, in one order for each pipeline. Each link holds a digest of its record and of
-- the link before it, so a record that is changed, taken out or put in later does not fit.

-- The record of a commit: what it read, what it wrote, with which code and verdict. Its text is what a link digests, and
-- what a certificate shows. Large numbers are text: not every reader of JSON keeps their digits.
create view committed_record as
select c.batch_id, c.stream_id, b.pipeline, b.state, c.at, jsonb_build_object(
    'record', 'commit', 'pipeline', b.pipeline, 'batch', b.batch_id, 'lane', b.lane,
    'cluster_id', s.cluster_id, 'topic', s.topic, 'topic_id', s.topic_id, 'partition', s.partition,
    'stream', s.stream_id, 'from_offset', lower(r.offsets), 'until_offset', upper(r.offsets),
    'attempt', c.token, 'nonce', c.nonce, 'definition', c.definition_hash,
    'delivered', u.delivered, 'written', u.written, 'filtered', u.filtered, 'rejected', u.rejected, 'rows', u.rows,
    'offsets_digest', u.digest_sum::text || ':' || u.digest_squares::text,
    'rows_digest', u.rows_digest::text, 'rejects_digest', u.rejects_digest::text,
    'targets', coalesce(t.targets, '[]'), 'suite', v.suite, 'passed', v.success,
    'verdict', encode(sha256(convert_to(v.result::text, 'UTF8')), 'hex'),
    'at', to_char(c.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text as record
from commit c
join batch b on b.batch_id = c.batch_id
join stream s on s.stream_id = c.stream_id
join batch_range r on r.batch_id = c.batch_id and r.stream_id = c.stream_id
join result u on u.batch_id = c.batch_id and u.token = c.token and u.stream_id = c.stream_id
left join verdict v on v.batch_id = c.batch_id and v.token = c.token
left join lateral (
    select jsonb_agg(jsonb_build_object(
        'place', n.place, 'target', h.target, 'rows_digest', n.rows_digest::text,
        'rejects_digest', n.rejects_digest::text, 'target_digest', n.target_digest::text) order by n.place) as targets
    from content n left join shape h using (shape_id)
    where n.batch_id = c.batch_id and n.stream_id = c.stream_id) t on true;

create view decided_record as
select d.decision_id, d.pipeline, d.at, jsonb_build_object(
    'record', 'decision', 'pipeline', d.pipeline, 'decision', d.decision_id, 'kind', d.kind, 'who', d.who, 'why', d.why,
    'login', d.login, 'client', d.client, 'program', d.program, 'os_user', d.os_user, 'detail', d.detail, 'at', to_char(d.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text as record
from decision d;

create table link (
    pipeline text not null references pipeline,
    number bigint not null check (number > 0),
    batch_id bigint,
    stream_id int,
    decision_id bigint references decision,
    digest text not null,  -- SHA-256, hexadecimal, of the digest before it, a line feed and the record
    at timestamptz not null default clock_timestamp(),
    primary key (pipeline, number),
    foreign key (batch_id, stream_id) references commit,
    constraint link_once unique (batch_id, stream_id),
    constraint decision_link_once unique (decision_id),
    constraint one_record check (num_nonnulls(batch_id, stream_id) = case when decision_id is null then 2 else 0 end)
);

-- What the next seal links.
create table unsealed (
    pipeline text not null references pipeline,
    batch_id bigint,
    stream_id int,
    decision_id bigint
);
create index unsealed_of_pipeline on unsealed (pipeline);

insert into unsealed (pipeline, batch_id, stream_id)
select b.pipeline, c.batch_id, c.stream_id from commit c join batch b using (batch_id);
insert into unsealed (pipeline, decision_id) select d.pipeline, d.decision_id from decision d;

create function note_commits() returns trigger language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    insert into lockstep.unsealed (pipeline, batch_id, stream_id)
    select b.pipeline, a.batch_id, a.stream_id from added a join lockstep.batch b using (batch_id);
    return null;
end $$;
create trigger noted_for_the_chain after insert on commit referencing new table as added
    for each statement execute function note_commits();

create function note_decisions() returns trigger language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    insert into lockstep.unsealed (pipeline, decision_id) select a.pipeline, a.decision_id from added a;
    return null;
end $$;
create trigger noted_for_the_chain after insert on decision referencing new table as added
    for each statement execute function note_decisions();

-- Links what waits, the oldest first and at most so many; returns how many. A batch that is not closed waits: tasks still
-- commit ranges of it. Only this function writes links: no role may. Its joins are written in the order that suits them, and
-- planned once: a search for another order costs more than the work.
create function seal(of_pipeline text, most int) returns int language plpgsql security definer
    set join_collapse_limit = 1 set plan_cache_mode = force_generic_plan set search_path = pg_catalog, pg_temp as $$
declare
    last_number bigint;
    last_digest text;
    of_link text;
    waits record;
    links int := 0;
begin
    perform from lockstep.pipeline where name = of_pipeline for no key update;
    select number, digest into last_number, last_digest
    from lockstep.link where pipeline = of_pipeline order by number desc limit 1;
    if not found then
        last_number := 0;
        last_digest := '';
    end if;
    for waits in
        select w.ctid as place, w.batch_id, w.stream_id, w.decision_id
        from lockstep.unsealed w
        left join lockstep.commit c on c.batch_id = w.batch_id and c.stream_id = w.stream_id
        left join lockstep.batch b on b.batch_id = w.batch_id
        left join lockstep.decision d on d.decision_id = w.decision_id
        where w.pipeline = of_pipeline and (w.decision_id is not null or b.state <> 'planned')
        order by coalesce(c.at, d.at), w.batch_id, w.stream_id, w.decision_id limit most
    loop
        if waits.decision_id is null then
            select record into strict of_link from lockstep.committed_record
            where batch_id = waits.batch_id and stream_id = waits.stream_id;
        else
            select record into strict of_link from lockstep.decided_record where decision_id = waits.decision_id;
        end if;
        last_number := last_number + 1;
        last_digest := encode(sha256(convert_to(last_digest || e'\n' || of_link, 'UTF8')), 'hex');
        insert into lockstep.link (pipeline, number, batch_id, stream_id, decision_id, digest)
        values (of_pipeline, last_number, waits.batch_id, waits.stream_id, waits.decision_id, last_digest);
        delete from lockstep.unsealed where ctid = waits.place;
        links := links + 1;
    end loop;
    return links;
end $$;
revoke execute on function seal from public;
grant execute on function seal to lockstep_committer;
grant select on link, unsealed, committed_record, decided_record
    to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
