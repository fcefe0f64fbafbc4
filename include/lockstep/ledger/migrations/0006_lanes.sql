-- Fill and replay: a request may have several stretches of one stream, and a preview commits nothing.

alter table request add column preview boolean not null default false;

alter table request_window drop constraint request_window_pkey;
alter table request_window add constraint no_window_twice exclude using gist (
    int8range(request_id, request_id, '[]') with &&, int4range(stream_id, stream_id, '[]') with &&, offsets with &&);
create index window_of_request on request_window (request_id);

create function guard_request() returns trigger language plpgsql as $$
begin
    if old.closed_at is not null then
        raise exception 'closed_once: request % is closed', old.request_id using errcode = '23514', constraint = 'closed_once';
    end if;
    return new;
end $$;
create trigger closed_once before update on request for each row execute function guard_request();

-- The fence, and two more things that a commit row stands for: no preview commits, and what was read could be read whole.
create or replace function guard_commit() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
    if not exists (
        select 1 from lockstep.batch b where b.batch_id = new.batch_id and b.token = new.token and b.state = 'planned') then
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

-- What was accepted as lost stays lost: no lane may take it for covered again.
create function guard_loss() returns trigger language plpgsql as $$
begin
    raise exception 'loss_stays: % of stream % was accepted as lost', old.offsets, old.stream_id
        using errcode = '23514', constraint = 'loss_stays';
end $$;
create trigger loss_stays before update or delete on coverage for each row when (old.kind = 'loss') execute function guard_loss();
