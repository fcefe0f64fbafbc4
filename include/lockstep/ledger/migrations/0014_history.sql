-- History under Airflow: which run has asked for which request, and what a reviewer was shown before it was done.

-- A run's key, as `call` keeps it for batches: whoever asks again under it finds what it has asked for.
create table request_call (
    pipeline text not null references pipeline,
    key text not null,
    request_id bigint not null references request,
    at timestamptz not null default clock_timestamp(),
    primary key (pipeline, key, request_id)
);
create index request_call_of_request on request_call (request_id);

-- The difference that a preview has found, under which code.
create table rehearsal (
    request_id bigint primary key references request,
    content_hash text not null,
    difference jsonb not null,
    at timestamptz not null default clock_timestamp()
);

-- Only a preview is rehearsed: what was shown has changed nothing.
create function guard_rehearsal() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
    if not exists (select 1 from lockstep.request r where r.request_id = new.request_id and r.preview) then
        raise exception 'rehearsed_is_preview: request % is no preview', new.request_id
            using errcode = '23514', constraint = 'rehearsed_is_preview';
    end if;
    return new;
end $$;
create trigger rehearsed_is_preview before insert on rehearsal for each row execute function guard_rehearsal();

grant select on request_call, rehearsal
    to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
grant insert on request_call, rehearsal to lockstep_planner;
