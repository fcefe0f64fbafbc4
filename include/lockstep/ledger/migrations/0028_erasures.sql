-- Erasing a person: what was taken out is recorded without the key, and records that hold the key stay out.

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
        replace(kinds, '''hand-over''::text', '''hand-over''::text, ''erase''::text'));
end $$;

-- A pipeline and those that have handed a table over to it: their rows are its own now, and so are their erasures.
create function line_of(of_pipeline text) returns text[]
language sql stable set search_path = pg_catalog, pg_temp as $$
    with recursive line (name) as (
        select of_pipeline union
        select d.detail ->> 'from' from line l join lockstep.decision d
            on d.pipeline = l.name and d.kind = 'hand-over' and d.detail ->> 'to' = l.name)
    select array_agg(name) from line
$$;

-- Digests of keys are salted, once for each pipeline, so that one look at a record finds every erasure.
create table erasure_salt (
    pipeline text primary key references pipeline,
    salt bytea not null default sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'))
        check (length(salt) = 32)
);

create function key_digest(salt bytea, key bytea) returns text
language sql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
    select encode(sha256(salt || key), 'hex')
$$;

-- One key that was erased: in which column it stood, and its digest. Attempts that were opened before cannot commit.
create table erasure (
    erasure_id bigint generated always as identity primary key,
    pipeline text not null references erasure_salt,
    column_name text not null,
    as_uuid boolean not null,
    digest text not null,
    token bigint not null default nextval('lockstep.token_seq'),
    at timestamptz not null default clock_timestamp(),
    constraint erasure_keeps_no_key check (digest ~ '^[0-9a-f]{64}$')
);
create index erasure_of_key on erasure (pipeline, column_name, digest);

-- Records below these offsets stay out. Those behind them were produced after the erasure, and are taken.
create table erasure_bound (
    erasure_id bigint not null references erasure,
    topic_id text not null,
    partition int not null,
    until_offset bigint not null check (until_offset >= 0),
    primary key (erasure_id, topic_id, partition)
);

-- What was taken out, by the record it came from. The digest is of appended rows, where they had one.
create table erased (
    erasure_id bigint not null references erasure,
    relation text not null,  -- the target, lockstep.contribution or lockstep.reject
    target text not null,
    batch_id bigint not null,
    stream_id int not null references stream,
    "offset" bigint not null,
    rows bigint not null check (rows > 0),
    digest numeric,
    primary key (erasure_id, relation, target, batch_id, stream_id, "offset")
);
create index erased_of_batch on erased (batch_id, stream_id);
create index erased_of_record on erased (stream_id, "offset");

-- All that an erasure took out, as one number: the decision holds it, and the chain holds the decision.
create function erased_digest(of_erasure bigint) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select encode(sha256(convert_to(coalesce(string_agg(concat_ws(' ', x.relation, x.target, x.batch_id, x.stream_id, x."offset",
        x.rows, coalesce(x.digest::text, '-')), e'\n'
        order by x.relation collate "C", x.target collate "C", x.batch_id, x.stream_id, x."offset"), ''), 'UTF8')), 'hex')
    from lockstep.erased x where x.erasure_id = of_erasure
$$;

create function erasure_decision(of_erasure bigint) returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select min(d.decision_id) from lockstep.decision d join lockstep.erasure e using (pipeline)
    where e.erasure_id = of_erasure and d.kind = 'erase' and d.detail ->> 'erasure' = of_erasure::text
$$;

-- No erasure without the decision that says what it took out, in one transaction.
create function guard_erasure() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (
        select from lockstep.decision d
        where d.decision_id = lockstep.erasure_decision(new.erasure_id)
          and d.detail ->> 'erased' = lockstep.erased_digest(new.erasure_id) and d.detail ->> 'key' = new.digest) then
        raise exception 'erasure_is_decided: no decision says what erasure % took out', new.erasure_id
            using errcode = '23514', constraint = 'erasure_is_decided';
    end if;
    return null;
end $$;
create constraint trigger erasure_is_decided after insert on erasure
    deferrable initially deferred for each row execute function guard_erasure();

-- What was erased is recorded while the decision is still open, and never later.
create function guard_undecided(of_erasure bigint) returns void
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    if lockstep.erasure_decision(of_erasure) is not null
            or not exists (select from lockstep.erasure where erasure_id = of_erasure) then
        raise exception 'erased_once: erasure % is decided, or is not there', of_erasure
            using errcode = '23514', constraint = 'erased_once';
    end if;
end $$;
revoke execute on function guard_undecided from public;

create function guard_erased() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform lockstep.guard_undecided(a.erasure_id) from (select distinct erasure_id from added) a;
    return null;
end $$;
create trigger erased_once after insert on erased referencing new table as added
    for each statement execute function guard_erased();
create trigger erased_once after insert on erasure_bound referencing new table as added
    for each statement execute function guard_erased();

-- An attempt that was opened before an erasure may have staged what was erased.
create function guard_erased_key() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    early record;
begin
    select a.batch_id, a.token into early
    from added a join lockstep.batch b using (batch_id)
    where exists (select from lockstep.erasure e where e.pipeline = b.pipeline and e.token > a.token) limit 1;
    if found then
        raise exception 'erased_stays_out: attempt % of batch % was opened before a key of its pipeline was erased',
            early.token, early.batch_id using errcode = '23514', constraint = 'erased_stays_out';
    end if;
    return null;
end $$;
create trigger erased_stays_out after insert on commit referencing new table as added
    for each statement execute function guard_erased_key();

-- Rejects whose bytes are gone keep offset, reason, and what their digest lost with the bytes.
alter table reject add column emptied_at timestamptz, add column removed_digest numeric,
    add constraint emptied_is_empty check (
        (emptied_at is null) = (removed_digest is null) and (emptied_at is null or num_nonnulls(key, value, headers) = 0));
create index reject_with_bytes on reject (stream_id, batch_id) where emptied_at is null;

create function reject_digest(stream int, at_offset bigint, stamp timestamptz, key bytea, value bytea, headers text, reason text)
returns numeric language sql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
    select hashint8extended(hash_record_extended(row(stream, at_offset, stamp, key, value,
        headers collate "C", reason collate "C"), 0), -1)::numeric
$$;

-- Rejects older than the newest definition keeps them lose their bytes, at most so many; returns how many.
create function empty_old_rejects(of_pipeline text, most int) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    days int := (
        select (d.document ->> 'reject_retention')::int from lockstep.batch b
        join lockstep.attempt a on a.batch_id = b.batch_id and a.token = b.token join lockstep.definition d using (definition_hash)
        where b.batch_id = (
            select batch_id from lockstep.batch where pipeline = of_pipeline and state = 'committed' order by batch_id desc limit 1));
    emptied int;
begin
    if days is null then
        return 0;
    end if;
    update lockstep.reject r set key = null, value = null, headers = null, emptied_at = clock_timestamp(),
        removed_digest =
            lockstep.reject_digest(r.stream_id, r."offset", r.timestamp, r.key, r.value, r.headers::text, r.reason)
            - lockstep.reject_digest(r.stream_id, r."offset", r.timestamp, null, null, null, r.reason)
    from (
        select j.stream_id, j."offset" from lockstep.reject j
        join lockstep.stream s using (stream_id) join lockstep.commit c using (batch_id, stream_id)
        where s.pipeline = of_pipeline and j.emptied_at is null and c.at < clock_timestamp() - make_interval(days => days)
        order by j.stream_id, j."offset" limit most) old
    where r.stream_id = old.stream_id and r."offset" = old."offset" and r.emptied_at is null;
    get diagnostics emptied = row_count;
    return emptied;
end $$;

-- An erasure empties the rejects that hold one of these byte strings; a reason that does is replaced, too.
create function erase_rejects(of_erasure bigint, needles bytea[]) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    emptied int;
begin
    perform lockstep.guard_undecided(of_erasure);
    with held as (
        select j.*, exists (select from unnest(needles) n where position(n in convert_to(j.reason, 'UTF8')) > 0) as told
        from lockstep.erasure e join lockstep.stream s on s.pipeline = any(lockstep.line_of(e.pipeline))
        join lockstep.reject j using (stream_id)
        where e.erasure_id = of_erasure and exists (
            select from unnest(needles) n
            where position(n in j.key) > 0 or position(n in j.value) > 0
               or position(n in convert_to(j.headers::text, 'UTF8')) > 0 or position(n in convert_to(j.reason, 'UTF8')) > 0)),
    made as (
        select h.*, case when h.told then 'erased' else h.reason end as kept from held h),
    gone as (
        update lockstep.reject r set key = null, value = null, headers = null, reason = m.kept,
            emptied_at = coalesce(r.emptied_at, clock_timestamp()),
            removed_digest = coalesce(r.removed_digest, 0)
                + lockstep.reject_digest(m.stream_id, m."offset", m.timestamp, m.key, m.value, m.headers::text, m.reason)
                - lockstep.reject_digest(m.stream_id, m."offset", m.timestamp, null, null, null, m.kept)
        from made m where r.stream_id = m.stream_id and r."offset" = m."offset"
        returning r.batch_id, r.stream_id, r."offset")
    insert into lockstep.erased (erasure_id, relation, target, batch_id, stream_id, "offset", rows)
    select of_erasure, 'lockstep.reject', 'lockstep.reject', g.batch_id, g.stream_id, g."offset", 1 from gone g;
    get diagnostics emptied = row_count;
    return emptied;
end $$;

-- A closed attempt's error may quote a value. An erasure alone may replace it.
create or replace function guard_attempt() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if old.closed_at is not null and (
            current_user <> 'lockstep_owner' or new.error is distinct from 'erased'
            or to_jsonb(old) - 'error' <> to_jsonb(new) - 'error') then
        raise exception 'closed_once: attempt % of batch % is %', old.token, old.batch_id, old.state
            using errcode = '23514', constraint = 'closed_once';
    end if;
    return new;
end $$;

-- The digest of a verdict whose values were erased: the chain has it, and goes on to hold.
alter table verdict add column erased_digest text check (erased_digest ~ '^[0-9a-f]{64}$');

-- Errors and verdicts of the pipeline that match the pattern lose what they say; returns how many.
create function erase_said(of_erasure bigint, pattern text) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    errors int;
    verdicts int;
    line text[] := (select lockstep.line_of(pipeline) from lockstep.erasure where erasure_id = of_erasure);
begin
    perform lockstep.guard_undecided(of_erasure);
    update lockstep.attempt a set error = 'erased' from lockstep.batch b
    where b.batch_id = a.batch_id and b.pipeline = any(line) and a.error ~ pattern;
    get diagnostics errors = row_count;
    update lockstep.verdict v
    set erased_digest = coalesce(v.erased_digest, encode(sha256(convert_to(v.result::text, 'UTF8')), 'hex')),
        result = jsonb_build_object('success', v.success, 'refusals', '[]'::jsonb, 'erased', true,
            'quarantined', coalesce(v.result -> 'quarantined', '0'))
    from lockstep.batch b where b.batch_id = v.batch_id and b.pipeline = any(line) and v.result::text ~ pattern;
    get diagnostics verdicts = row_count;
    return errors + verdicts;
end $$;

create or replace view committed_record as
select c.batch_id, c.stream_id, b.pipeline, b.state, c.at, jsonb_build_object(
    'record', 'commit', 'pipeline', b.pipeline, 'batch', b.batch_id, 'lane', b.lane,
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

revoke execute on function empty_old_rejects, erase_rejects, erase_said, erasure_decision from public;
grant execute on function erase_rejects, erase_said to lockstep_committer;
grant execute on function erasure_decision to lockstep_committer, lockstep_reader;
grant execute on function empty_old_rejects to lockstep_planner;
grant select on erasure_salt, erasure, erasure_bound, erased
    to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
grant insert on erasure_salt, erasure, erasure_bound, erased to lockstep_committer;
