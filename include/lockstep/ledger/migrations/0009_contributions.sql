-- What each segment has added to each key of an accumulated target, kept so that a replay can take it out again.

create table contribution (
    target text not null,
    key jsonb not null,
    batch_id bigint not null,
    stream_id int not null,
    records bigint not null check (records > 0),
    "offset" bigint not null,  -- of the newest record that counts, with its last row
    ordinal int not null,
    totals jsonb not null,
    constraint contributes_once primary key (batch_id, stream_id, target, key),
    constraint key_is_whole check (not key @> '[null]')
);
create index contribution_of_key on contribution (target, key);

-- Only a batch under way contributes, and only from the streams it reads. Asked once per statement: there may be a row per key.
create function guard_contribution() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
declare
    stray record;
begin
    select a.batch_id, a.stream_id into stray from (select distinct batch_id, stream_id from added) a
    where not exists (select 1 from lockstep.claim k where k.batch_id = a.batch_id and k.stream_id = a.stream_id) limit 1;
    if found then
        raise exception 'contributes_what_it_claims: batch % claims nothing of stream %', stray.batch_id, stray.stream_id
            using errcode = '23514', constraint = 'contributes_what_it_claims';
    end if;
    return null;
end $$;
create trigger contributes_what_it_claims after insert on contribution
    referencing new table as added for each statement execute function guard_contribution();

-- Who takes a segment over has taken its contributions out. Upkeep takes nothing over: whose row of coverage only became part
-- of a longer one still owns its offsets, and what it contributed still counts.
create function guard_withdrawn() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
    if exists (
        select 1 from lockstep.contribution x where x.batch_id = old.batch_id and x.stream_id = old.stream_id) and exists (
        select 1 from (
            select c.batch_id from lockstep.coverage c
            where c.stream_id = old.stream_id and lower(c.offsets) <= lower(old.offsets)
            order by lower(c.offsets) desc limit 1) heir
        join lockstep.batch_range r on r.batch_id = heir.batch_id and r.stream_id = old.stream_id
        where heir.batch_id <> old.batch_id and r.offsets && old.offsets) then
        raise exception 'withdrawn_whole: % of stream % is taken over, and what batch % contributed still counts',
            old.offsets, old.stream_id, old.batch_id using errcode = '23514', constraint = 'withdrawn_whole';
    end if;
    return null;
end $$;
create constraint trigger withdrawn_whole after delete or update on coverage
    deferrable initially deferred for each row when (old.kind = 'batch') execute function guard_withdrawn();

grant select on contribution to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
grant insert, delete on contribution to lockstep_committer;
