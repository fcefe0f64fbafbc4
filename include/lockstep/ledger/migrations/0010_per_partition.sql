-- Per partition: a stream of a batch may be committed by itself, by the task that has read it, while its batch is unfinished.

-- What one commit of an attempt moves: the whole batch, or one stream of it.
alter table attempt add column unit text not null default 'batch' check (unit in ('batch', 'stream'));

-- Which connections the tasks of an attempt commit over, so that the next attempt can end those that are still there.
create table task_backend (
    batch_id bigint not null,
    token bigint not null,
    pid int not null,
    backend_start timestamptz not null,
    at timestamptz not null default clock_timestamp(),
    primary key (batch_id, token, pid, backend_start),
    foreign key (batch_id, token) references attempt
);

-- The fence. A task holds no lock of the batch, so the row is shared here until its COMMIT: no newer attempt opens in between.
create or replace function guard_commit() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
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
          and u.log_start_after > lower(g.offsets)) then
        raise exception 'read_whole: stream % of batch % was trimmed while it was read', new.stream_id, new.batch_id
            using errcode = '23514', constraint = 'read_whole';
    end if;
    return new;
end $$;

-- A batch closes whole; one that is abandoned keeps what tasks have committed of it, and what commits as a whole has nothing to keep.
create or replace function guard_closing() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
    if exists (select 1 from lockstep.claim c where c.batch_id = new.batch_id) then
        raise exception 'no_claim_left: batch % closes and still claims offsets', new.batch_id
            using errcode = '23514', constraint = 'no_claim_left';
    end if;
    if new.state = 'committed' and exists (
        select 1 from lockstep.batch_range r where r.batch_id = new.batch_id and not exists (
            select 1 from lockstep.commit c where c.batch_id = r.batch_id and c.stream_id = r.stream_id)) then
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

-- The tasks: what they write is their range's and nothing of the batch; a row lock needs UPDATE on one column.
grant select on task_backend to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
grant insert on task_backend, manifest, result, commit, coverage, reject, tombstone to lockstep_partition;
grant delete on coverage, claim, reject, tombstone to lockstep_partition;
grant update on tombstone to lockstep_partition;
grant update (position) on stream to lockstep_partition;
grant update (lease_until) on batch to lockstep_partition;
