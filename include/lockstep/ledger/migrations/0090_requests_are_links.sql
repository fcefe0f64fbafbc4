-- Requests are links of the chain, as commits and decisions are: a replay rewrites rows. Each chain also has a link that names
-- its ledger, so that a certificate of another ledger is not taken for one of this. A commit's link names the attempt's process.

create table ledger (
    ledger_id uuid primary key default gen_random_uuid(),
    at timestamptz not null default clock_timestamp(),
    is_only boolean not null default true check (is_only),
    constraint one_ledger unique (is_only)
);
insert into ledger default values;

-- The name of the pipeline when it asked. A rename changes `pipeline` alone.
alter table request add column opened_as text;
alter table request disable trigger user;
update request set opened_as = pipeline;
alter table request enable trigger user;
alter table request alter column opened_as set not null;

create function name_request() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    new.opened_as := new.pipeline;
    return new;
end $$;
create trigger opened_as_named before insert on request for each row execute function name_request();

create view requested_record as
select q.request_id, q.pipeline, q.opened_at as at, jsonb_build_object(
    'record', 'request', 'pipeline', q.opened_as, 'request', q.request_id, 'lane', q.lane, 'preview', q.preview, 'token', q.token,
    'who', q.who, 'why', q.why, 'login', q.login, 'client', q.client, 'program', q.program, 'os_user', q.os_user,
    'windows', coalesce((
        select jsonb_agg(jsonb_build_object(
            'stream', w.stream_id, 'from_offset', lower(w.offsets), 'until_offset', upper(w.offsets))
            order by w.stream_id, lower(w.offsets))
        from request_window w where w.request_id = q.request_id), '[]'),
    'at', to_char(q.opened_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text as record
from request q;

create view ledger_record as
select l.ledger_id, l.at, jsonb_build_object(
    'record', 'ledger', 'ledger', l.ledger_id,
    'at', to_char(l.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text as record
from ledger l;

-- The record of a commit names the process that ran it. Links from before this migration have `form` 1: a record without `ran`.
create or replace view committed_record as
select c.batch_id, c.stream_id, b.pipeline, b.state, c.at, jsonb_build_object(
    'record', 'commit', 'pipeline', coalesce((
        select n.former from lockstep.renaming n
        where n.pipeline = b.pipeline and n.last_batch >= b.batch_id order by n.last_batch, n.decision_id limit 1), b.pipeline),
    'batch', b.batch_id, 'lane', b.lane,
    'cluster_id', s.cluster_id, 'topic', s.topic, 'topic_id', s.topic_id, 'partition', s.partition,
    'stream', s.stream_id, 'from_offset', lower(r.offsets), 'until_offset', upper(r.offsets),
    'attempt', c.token, 'nonce', c.nonce, 'definition', c.definition_hash,
    'ran', jsonb_build_object('owner', a.owner, 'dag', a.dag_id, 'dag_run', a.dag_run_id, 'task', a.task_id,
        'map_index', a.map_index, 'task_instance', a.task_instance_id, 'try', a.try_number),
    'delivered', u.delivered, 'written', u.written, 'filtered', u.filtered, 'rejected', u.rejected, 'rows', u.rows,
    'offsets_digest', u.digest_sum::text || ':' || u.digest_squares::text,
    'rows_digest', u.rows_digest::text, 'rejects_digest', u.rejects_digest::text,
    'targets', coalesce(t.targets, '[]'), 'suite', v.suite, 'passed', v.success,
    'verdict', coalesce(v.erased_digest, encode(sha256(convert_to(v.result::text, 'UTF8')), 'hex')),
    'at', to_char(c.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text as record
from commit c
join batch b on b.batch_id = c.batch_id
join stream s on s.stream_id = c.stream_id
join batch_range r on r.batch_id = c.batch_id and r.stream_id = c.stream_id
join attempt a on a.batch_id = c.batch_id and a.token = c.token
join result u on u.batch_id = c.batch_id and u.token = c.token and u.stream_id = c.stream_id
left join verdict v on v.batch_id = c.batch_id and v.token = c.token
left join lateral (
    select jsonb_agg(jsonb_build_object(
        'place', n.place, 'target', h.target, 'rows_digest', n.rows_digest::text,
        'rejects_digest', n.rejects_digest::text, 'target_digest', n.target_digest::text) order by n.place) as targets
    from content n left join shape h using (shape_id)
    where n.batch_id = c.batch_id and n.stream_id = c.stream_id) t on true;

alter table link add column request_id bigint references request, add column ledger_id uuid,
    add column form smallint not null default 1,
    add constraint request_link_once unique (request_id), add constraint ledger_link_once unique (pipeline, ledger_id),
    drop constraint one_record,
    add constraint one_record check (num_nonnulls(batch_id, stream_id)
        = case num_nonnulls(decision_id, request_id, ledger_id) when 0 then 2 when 1 then 0 end);
alter table link alter column form set default 2;
alter table unsealed add column request_id bigint, add column ledger_id uuid;

insert into unsealed (pipeline, ledger_id) select p.name, l.ledger_id from pipeline p cross join ledger l;
insert into unsealed (pipeline, request_id) select q.pipeline, q.request_id from request q;

create function note_requests() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    insert into lockstep.unsealed (pipeline, request_id) select a.pipeline, a.request_id from added a;
    return null;
end $$;
create trigger noted_for_the_chain after insert on request referencing new table as added
    for each statement execute function note_requests();

create function note_ledger() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    insert into lockstep.unsealed (pipeline, ledger_id) select a.name, l.ledger_id from added a cross join lockstep.ledger l;
    return null;
end $$;
create trigger noted_for_the_chain after insert on pipeline referencing new table as added
    for each statement execute function note_ledger();

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
    requests bigint[];
    ledgers uuid[];
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
        select w.ctid as place, w.batch_id, w.stream_id, w.decision_id, w.request_id, w.ledger_id,
            case
                when w.decision_id is not null
                    then (select r.record from lockstep.decided_record r where r.decision_id = w.decision_id)
                when w.request_id is not null
                    then (select r.record from lockstep.requested_record r where r.request_id = w.request_id)
                when w.ledger_id is not null
                    then (select r.record from lockstep.ledger_record r where r.ledger_id = w.ledger_id)
                else (select r.record from lockstep.committed_record r where r.batch_id = w.batch_id and r.stream_id = w.stream_id)
            end as record
        from lockstep.unsealed w
        left join lockstep.commit c on c.batch_id = w.batch_id and c.stream_id = w.stream_id
        left join lockstep.batch b on b.batch_id = w.batch_id
        left join lockstep.decision d on d.decision_id = w.decision_id
        left join lockstep.request q on q.request_id = w.request_id
        where w.pipeline = of_pipeline
          and (num_nonnulls(w.decision_id, w.request_id, w.ledger_id) > 0 or b.state <> 'planned')
        order by w.ledger_id is null, coalesce(c.at, d.at, q.opened_at), w.batch_id, w.stream_id, w.decision_id, w.request_id
        limit most
    loop
        if waits.record is null then
            raise exception 'batch %, stream %, decision %, request %: there is nothing to seal',
                waits.batch_id, waits.stream_id, waits.decision_id, waits.request_id using errcode = 'P0002';
        end if;
        last_digest := encode(sha256(convert_to(last_digest || e'\n' || waits.record, 'UTF8')), 'hex');
        links := links + 1;
        places[links] := waits.place;
        batches[links] := waits.batch_id;
        streams[links] := waits.stream_id;
        decisions[links] := waits.decision_id;
        requests[links] := waits.request_id;
        ledgers[links] := waits.ledger_id;
        digests[links] := last_digest;
    end loop;
    insert into lockstep.link (pipeline, number, batch_id, stream_id, decision_id, request_id, ledger_id, digest)
    select of_pipeline, last_number + n.place, n.batch_id, n.stream_id, n.decision_id, n.request_id, n.ledger_id, n.digest
    from unnest(batches, streams, decisions, requests, ledgers, digests)
        with ordinality n (batch_id, stream_id, decision_id, request_id, ledger_id, digest, place);
    delete from lockstep.unsealed where ctid = any (places);
    return links;
end $$;

grant select on ledger, requested_record, ledger_record
    to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
