-- Raw records are copied into files before retention deletes them. Those files are read where the log has no more.

-- Upkeep lets go of what lies below the log start that it acts on. What is archived later must not lie below it.
alter table stream add column upkept_below bigint not null default 0;
grant update (upkept_below) on stream to lockstep_planner;

-- A file counts when it was closed, read back and has its row. The stream is the one that opened the log: growth keeps the log.
create table archived (
    archived_id bigint generated always as identity primary key,
    stream_id integer not null references stream,
    offsets int8range not null,
    path text not null,
    records bigint not null,
    bytes bigint not null,
    digest_sum numeric not null,
    digest_squares numeric not null,
    sha256 text not null,
    newest timestamptz,
    log_start bigint not null,
    at timestamptz not null default clock_timestamp(),
    constraint archived_once exclude using gist (int4range(stream_id, stream_id, '[]') with &&, offsets with &&),
    constraint one_row_a_file unique (path),
    constraint archived_half_open check (not isempty(offsets) and lower_inc(offsets) and not upper_inc(offsets)
        and lower(offsets) >= 0 and upper(offsets) is not null),
    constraint archived_from_the_log check (log_start <= lower(offsets)),
    constraint archived_counts check (records >= 0 and records <= upper(offsets) - lower(offsets) and bytes > 0),
    constraint archived_sha256_check check (sha256 ~ '^[0-9a-f]{64}$')
);

-- Whose files were dropped, by which decision. They are read no more, and their offsets are not archived again.
create table archive_drop (
    archived_id bigint primary key references archived,
    decision_id bigint not null references decision,
    at timestamptz not null default clock_timestamp()
);

-- The stream that opened the log of this one.
create function opened_log(stream integer) returns integer language sql stable set search_path = pg_catalog, pg_temp as $$
    select min(o.stream_id) from lockstep.stream s join lockstep.stream o on o.pipeline = s.pipeline
        and o.topic = s.topic and o.partition = s.partition and o.incarnation = s.incarnation
    where s.stream_id = stream
$$;

-- The offsets of a stream's log that the archive holds.
create function archive_of(stream integer) returns int8multirange
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select coalesce(range_agg(a.offsets), '{}') from lockstep.archived a
    where a.stream_id = lockstep.opened_log(stream)
      and not exists (select from lockstep.archive_drop d where d.archived_id = a.archived_id)
$$;

create function guard_archived() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    -- Upkeep holds this lock, too: what it has let go of is known here.
    perform from lockstep.pipeline p join lockstep.stream s on s.pipeline = p.name where s.stream_id = new.stream_id
        for no key update of p;
    if lockstep.opened_log(new.stream_id) <> new.stream_id or lockstep.is_replaced(new.stream_id) then
        raise exception 'archived_of_one_log: stream % did not open the log of today', new.stream_id
            using errcode = '23514', constraint = 'archived_of_one_log';
    end if;
    if exists (
        select from lockstep.stream s
        where lockstep.opened_log(s.stream_id) = new.stream_id and s.upkept_below > lower(new.offsets)) then
        raise exception 'archived_in_time: upkeep has let go of offsets of % of stream %', new.offsets, new.stream_id
            using errcode = '23514', constraint = 'archived_in_time';
    end if;
    return new;
end $$;
create trigger archived_in_time before insert on archived for each row execute function guard_archived();

-- A file is dropped by a decision of its pipeline, when its records are committed and no batch under way reads them.
create function guard_archive_drop() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    gone lockstep.archived;
begin
    select * into gone from lockstep.archived a where a.archived_id = new.archived_id;
    if not exists (
        select from lockstep.decision d join lockstep.stream s on s.pipeline = d.pipeline
        where d.decision_id = new.decision_id and d.kind = 'drop-archived' and s.stream_id = gone.stream_id) then
        raise exception 'dropped_by_decision: % has no decision that drops it', gone.path
            using errcode = '23514', constraint = 'dropped_by_decision';
    end if;
    if exists (
        select from lockstep.stream s where lockstep.opened_log(s.stream_id) = gone.stream_id
          and ((s.retired_at is null and s.position < upper(gone.offsets)) or exists (
            select from lockstep.claim k where k.stream_id = s.stream_id and k.offsets && gone.offsets))) then
        raise exception 'dropped_when_done: % holds records that are not committed, or that a batch reads', gone.path
            using errcode = '23514', constraint = 'dropped_when_done';
    end if;
    return new;
end $$;
create trigger dropped_when_done before insert on archive_drop for each row execute function guard_archive_drop();

-- What the archive holds can be replayed, so its segments stay apart: a merged stretch is no batch's own.
create function guard_archived_segments() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    merged record;
begin
    select a.stream_id, a.offsets into merged from added a
    where a.kind = 'batch' and not exists (
        select from lockstep.batch_range r
        where r.batch_id = a.batch_id and r.stream_id = a.stream_id and r.offsets = a.offsets)
      and lockstep.archive_of(a.stream_id) && a.offsets limit 1;
    if found then
        raise exception 'archived_stays_apart: % of stream % is archived', merged.offsets, merged.stream_id
            using errcode = '23514', constraint = 'archived_stays_apart';
    end if;
    return null;
end $$;
create trigger archived_stays_apart after insert on coverage referencing new table as added
    for each statement execute function guard_archived_segments();

create function guard_folded_archive() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    stray record;
begin
    select w.batch_id, w.stream_id into stray from (select distinct batch_id, stream_id from was) w
    join lockstep.batch_range r on r.batch_id = w.batch_id and r.stream_id = w.stream_id
    where lockstep.archive_of(w.stream_id) && r.offsets limit 1;
    if found then
        raise exception 'folded_unarchived: batch % of stream % can be read from the archive', stray.batch_id, stray.stream_id
            using errcode = '23514', constraint = 'folded_unarchived';
    end if;
    return null;
end $$;
create trigger folded_unarchived after update on contribution referencing old table as was
    for each statement execute function guard_folded_archive();

-- A range that began below log start is whole where the archive holds its beginning. One that did not was read from the log.
create or replace function guard_commit() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    newest bigint;
    found text;
begin
    if exists (
        select 1 from lockstep.attempt a where a.batch_id = new.batch_id and a.token = new.token and a.unit = 'stream') then
        select b.token, b.state into newest, found from lockstep.batch b where b.batch_id = new.batch_id for share;
    else
        select b.token, b.state into newest, found from lockstep.batch b where b.batch_id = new.batch_id;
    end if;
    if newest is distinct from new.token or found is distinct from 'planned' then
        raise exception 'newest_attempt: attempt % of batch % is not its newest', new.token, new.batch_id
            using errcode = '23514', constraint = 'newest_attempt';
    end if;
    if exists (
        select 1 from lockstep.batch b join lockstep.request r using (request_id)
        where b.batch_id = new.batch_id and r.preview) then
        raise exception 'preview_commits_nothing: batch % is a preview', new.batch_id
            using errcode = '23514', constraint = 'preview_commits_nothing';
    end if;
    if exists (
        select 1 from lockstep.result u join lockstep.batch_range g using (batch_id, stream_id)
        where u.batch_id = new.batch_id and u.token = new.token and u.stream_id = new.stream_id
          and u.log_start_after > lower(g.offsets)
          and (u.log_start_before <= lower(g.offsets) or not lockstep.archive_of(g.stream_id)
            @> int8range(lower(g.offsets), least(upper(g.offsets), u.log_start_after)))) then
        raise exception 'read_whole: stream % of batch % was trimmed while it was read', new.stream_id, new.batch_id
            using errcode = '23514', constraint = 'read_whole';
    end if;
    return new;
end $$;

-- One kind of decisions more, beside whatever kinds there are.
do $$
declare
    kinds text := (select pg_get_constraintdef(oid) from pg_constraint
        where conrelid = 'lockstep.decision'::regclass and conname = 'decision_kind_check');
begin
    if strpos(kinds, '''hand-over''::text') = 0 then
        raise exception 'decision_kind_check is not as migration 0048 made it: %', kinds;
    end if;
    alter table decision drop constraint decision_kind_check;
    execute format('alter table decision add constraint decision_kind_check %s',
        replace(kinds, '''hand-over''::text', '''hand-over''::text, ''drop-archived''::text'));
end $$;

grant select on archived, archive_drop to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
grant insert on archived, archive_drop to lockstep_planner;
revoke execute on function guard_archived, guard_archive_drop, guard_archived_segments, guard_folded_archive from public;
