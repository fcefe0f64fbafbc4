-- A pipeline takes another name, and all of its history comes along. Links of the chain keep the name that they were made under.

-- A kind of decision more, beside whatever kinds there are.
do $$
declare
    kinds text := (select pg_get_constraintdef(oid) from pg_constraint
        where conrelid = 'lockstep.decision'::regclass and conname = 'decision_kind_check');
begin
    if strpos(kinds, '''hand-over''::text') = 0 then
        raise exception 'decision_kind_check is not as migration 0026 made it: %', kinds;
    end if;
    alter table decision drop constraint decision_kind_check;
    execute format('alter table decision add constraint decision_kind_check %s',
        replace(kinds, '''hand-over''::text', '''hand-over''::text, ''rename''::text'));
end $$;

-- Whatever bears a pipeline's name follows it.
do $$
declare
    each record;
begin
    for each in
        select k.conrelid::regclass as bearer, k.conname, pg_get_constraintdef(k.oid) as said from pg_constraint k
        where k.contype = 'f' and k.confrelid in (
            'lockstep.pipeline'::regclass, 'lockstep.complete_hour'::regclass, 'lockstep.erasure_salt'::regclass)
        order by 1, 2
    loop
        execute format('alter table %s drop constraint %I', each.bearer, each.conname);
        execute format('alter table %s add constraint %I %s on update cascade', each.bearer, each.conname, each.said);
    end loop;
end $$;

-- The former names of a pipeline, each with the last batch that was planned under it.
create table renaming (
    decision_id bigint primary key references decision,
    pipeline text not null references pipeline on update cascade,
    former text not null,
    last_batch bigint not null
);
create index renaming_of_pipeline on renaming (pipeline, last_batch);
create index renaming_of_name on renaming (former, decision_id);

-- What a pipeline is called now that had this name when a decision was made.
create function name_now(name_then text, of_decision bigint) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce((
        select r.pipeline from lockstep.renaming r
        where r.former = name_then and r.decision_id > of_decision order by r.decision_id limit 1), name_then)
$$;

-- A name that a pipeline once had leads to that pipeline, and to no other one. Looked at behind the insert, which may have
-- waited for the rename.
create function guard_former_name() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    its text;
begin
    select r.pipeline into its from lockstep.renaming r
    where r.former = new.name and r.pipeline <> new.name and (tg_op = 'INSERT' or r.pipeline <> old.name)
    order by r.decision_id desc limit 1;
    if its is not null then
        raise exception 'former_name_rests: % is a former name of %', new.name, its
            using errcode = '23514', constraint = 'former_name_rests';
    end if;
    return null;
end $$;
create trigger former_name_rests after insert or update of name on pipeline
    for each row execute function guard_former_name();

-- The one way to another name: no role may write it. Whoever has planned, or commits, under the old name is waited for.
create function rename_pipeline(old_name text, new_name text, who text, why text, more jsonb) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    decided bigint;
    kept text;
begin
    perform from lockstep.pipeline p where p.name = old_name for update;
    kept := case when exists (select from lockstep.batch b where b.pipeline = old_name and b.state = 'planned') then 'a batch under way'
        when exists (select from lockstep.target_owner o where o.pipeline = old_name and o.shared_with <> '{}') then 'a shared table' end;
    if kept is not null then
        raise exception 'renamed_is_idle: % has % and cannot be renamed', old_name, kept
            using errcode = '23514', constraint = 'renamed_is_idle';
    end if;
    update lockstep.pipeline set name = new_name where name = old_name;
    insert into lockstep.decision (pipeline, kind, who, why, detail)
    values (new_name, 'rename', who, why, more || jsonb_build_object('from', old_name, 'to', new_name))
    returning decision_id into decided;
    insert into lockstep.renaming (decision_id, pipeline, former, last_batch)
    select decided, new_name, old_name, coalesce(max(b.batch_id), 0) from lockstep.batch b where b.pipeline = new_name;
    return decided;
end $$;
revoke execute on function rename_pipeline from public;
grant execute on function rename_pipeline to lockstep_planner;

-- Closed rows stay as they are, but for the name, which the owner's rename alone writes.
create or replace function guard_batch() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if current_user = 'lockstep_owner' and old.pipeline <> new.pipeline
            and to_jsonb(old) - 'pipeline' = to_jsonb(new) - 'pipeline' then
        return new;
    end if;
    if old.state <> 'planned' then
        raise exception 'closed_once: batch % is %', old.batch_id, old.state
            using errcode = '23514', constraint = 'closed_once';
    end if;
    if new.token < old.token then
        raise exception 'closed_once: the token of batch % goes back from % to %', old.batch_id, old.token, new.token
            using errcode = '23514', constraint = 'closed_once';
    end if;
    return new;
end $$;

create or replace function guard_request() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if old.closed_at is not null and (current_user <> 'lockstep_owner' or old.pipeline = new.pipeline
            or to_jsonb(old) - 'pipeline' <> to_jsonb(new) - 'pipeline') then
        raise exception 'closed_once: request % is closed', old.request_id using errcode = '23514', constraint = 'closed_once';
    end if;
    return new;
end $$;

create or replace function guard_stream() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if current_user = 'lockstep_owner' and old.pipeline <> new.pipeline
            and to_jsonb(old) - 'pipeline' = to_jsonb(new) - 'pipeline' then
        return new;
    end if;
    if (old.epoch, old.incarnation, old.start_offset, old.partition, old.topic, old.topic_id, old.cluster_id, old.pipeline)
        is distinct from
       (new.epoch, new.incarnation, new.start_offset, new.partition, new.topic, new.topic_id, new.cluster_id, new.pipeline) then
        raise exception 'closed_once: stream % is one incarnation for good', old.stream_id
            using errcode = '23514', constraint = 'closed_once';
    end if;
    if old.retired_at is not null then
        raise exception 'closed_once: stream % is retired', old.stream_id
            using errcode = '23514', constraint = 'closed_once';
    end if;
    return new;
end $$;

-- Owners of one table name one another. Registrations of one table wait for each other. A rename leaves the owner the same.
create or replace function guard_owner() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    other record;
begin
    perform pg_advisory_xact_lock(hashtextextended('lockstep.owner ' || new.store || ' ' || new.target, 0));
    select o.pipeline into other from lockstep.target_owner o
    where o.store = new.store and o.target = new.target and o.pipeline <> new.pipeline
      and (tg_op = 'INSERT' or o.pipeline <> old.pipeline)
      and not (o.pipeline = any(new.shared_with) and new.pipeline = any(o.shared_with)) limit 1;
    if found then
        raise exception 'owned_once: % belongs to %, and % and % do not both say that they share it',
            new.target, other.pipeline, new.pipeline, other.pipeline using errcode = '23514', constraint = 'owned_once';
    end if;
    return new;
end $$;

-- The record of a commit bears the name that its batch was planned under. Else the chain would not fit its records any more.
create or replace view committed_record as
select c.batch_id, c.stream_id, b.pipeline, b.state, c.at, jsonb_build_object(
    'record', 'commit', 'pipeline', coalesce((
        select n.former from lockstep.renaming n
        where n.pipeline = b.pipeline and n.last_batch >= b.batch_id order by n.last_batch, n.decision_id limit 1), b.pipeline),
    'batch', b.batch_id, 'lane', b.lane,
    'cluster_id', s.cluster_id, 'topic', s.topic, 'topic_id', s.topic_id, 'partition', s.partition,
    'stream', s.stream_id, 'from_offset', lower(r.offsets), 'until_offset', upper(r.offsets),
    'attempt', c.token, 'nonce', c.nonce, 'definition', c.definition_hash,
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
join result u on u.batch_id = c.batch_id and u.token = c.token and u.stream_id = c.stream_id
left join verdict v on v.batch_id = c.batch_id and v.token = c.token
left join lateral (
    select jsonb_agg(jsonb_build_object(
        'place', n.place, 'target', h.target, 'rows_digest', n.rows_digest::text,
        'rejects_digest', n.rejects_digest::text, 'target_digest', n.target_digest::text) order by n.place) as targets
    from content n left join shape h using (shape_id)
    where n.batch_id = c.batch_id and n.stream_id = c.stream_id) t on true;

create or replace view decided_record as
select d.decision_id, d.pipeline, d.at, jsonb_build_object(
    'record', 'decision', 'pipeline', coalesce((
        select n.former from lockstep.renaming n
        where n.pipeline = d.pipeline and n.decision_id > d.decision_id order by n.decision_id limit 1), d.pipeline),
    'decision', d.decision_id, 'kind', d.kind, 'who', d.who, 'why', d.why,
    'login', d.login, 'client', d.client, 'program', d.program, 'os_user', d.os_user, 'detail', d.detail, 'at', to_char(d.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text as record
from decision d;

-- As before, with the names of today for those that hand-overs tell.
drop function line_of;
create function line_of(of_pipeline text) returns text[]
language sql stable set search_path = pg_catalog, pg_temp as $$
    with recursive gave (giver, receiver) as not materialized (
        select d.pipeline, lockstep.name_now(d.detail ->> 'to', d.decision_id) from lockstep.decision d
        where d.kind = 'hand-over' and d.pipeline <> lockstep.name_now(d.detail ->> 'to', d.decision_id)
        union all
        select d.pipeline, o.pipeline from lockstep.decision d
        cross join lateral jsonb_to_recordset(d.detail -> 'tables') t (store text, target text)
        join lockstep.target_owner o using (store, target)
        where d.kind = 'forget' and d.pipeline <> o.pipeline),
    line (name) as (select of_pipeline union select g.giver from line l join gave g on g.receiver = l.name)
    select array_agg(name) from line
$$;

grant select on renaming to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
