-- What segments that can never be read again add to a closed window becomes one contribution, so that retention bounds their number.

-- A contribution has records of its own segment, and has taken in those of others. Without any it has given up all of them.
alter table contribution add column folded bigint not null default 0;  -- of `records`, those that other segments gave up
alter table contribution drop constraint contribution_records_check;
alter table contribution add constraint contribution_records_check check (
    folded >= 0 and (records > folded or records = 0 and folded = 0));

-- How many records of a segment count in the contributions of other segments.
create table folded (
    target text not null,
    batch_id bigint not null,
    stream_id int not null,
    records bigint not null check (records > 0),
    constraint folded_once primary key (target, batch_id, stream_id)
);

-- A plan's segments contribute, and nothing is put in place of what was folded: it can never be read again as a whole.
create or replace function guard_contribution() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    stray record;
begin
    select a.batch_id, a.stream_id into stray from (select distinct batch_id, stream_id from added) a
    where not exists (select 1 from lockstep.claim k where k.batch_id = a.batch_id and k.stream_id = a.stream_id) limit 1;
    if found then
        raise exception 'contributes_what_it_claims: batch % claims nothing of stream %', stray.batch_id, stray.stream_id
            using errcode = '23514', constraint = 'contributes_what_it_claims';
    end if;
    select a.batch_id into stray from added a where a.records = 0 or a.folded <> 0 limit 1;
    if found then
        raise exception 'folded_by_update: batch % would contribute records of others', stray.batch_id
            using errcode = '23514', constraint = 'folded_by_update';
    end if;
    select a.batch_id, f.batch_id as before into stray from (select distinct target, batch_id from added) a
    join lockstep.claim k on k.batch_id = a.batch_id
    join lockstep.folded f on f.target = a.target and f.batch_id = k.expects_batch and f.stream_id = k.stream_id limit 1;
    if found then
        raise exception 'folded_stays: batch % would take the place of batch %, whose records are folded', stray.batch_id, stray.before
            using errcode = '23514', constraint = 'folded_stays';
    end if;
    return null;
end $$;

-- A window's records stay as many. What is folded can never be read again: it ends at or before a log start that a committed
-- batch has seen, nobody claims it, and the window is over.
create function guard_folding() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    stray record;
begin
    select coalesce(w.target, b.target) as target, coalesce(w.key, b.key) as key into stray
    from was w full join becomes b using (batch_id, stream_id, target, key)
    where not coalesce((b."offset", b.ordinal) = (w."offset", w.ordinal) and (
        (b.records = 0 and b.totals = '{}')
        or (b.records - b.folded = w.records - w.folded
            and (b.folded > w.folded or (b.folded = w.folded and b.totals = w.totals)))), false) limit 1;
    if not found then
        select m.target, m.key into stray from (
            select target, key, records from was union all select target, key, -records from becomes) m
        group by m.target, m.key having sum(m.records) <> 0 limit 1;
    end if;
    if found then
        raise exception 'folded_whole: window % of % would have other records', stray.key, stray.target
            using errcode = '23514', constraint = 'folded_whole';
    end if;
    select w.batch_id, w.stream_id into stray from (select distinct batch_id, stream_id from was) w
    left join lockstep.batch_range r on r.batch_id = w.batch_id and r.stream_id = w.stream_id
    where (upper(r.offsets) <= (
        select u.log_start_after from lockstep.coverage c join lockstep.commit m using (batch_id, stream_id)
        join lockstep.result u using (batch_id, token, stream_id)
        where c.stream_id = w.stream_id and c.kind = 'batch' order by lower(c.offsets) desc limit 1)) is not true limit 1;
    if found then
        raise exception 'folded_below_log_start: batch % of stream % can be read again', stray.batch_id, stray.stream_id
            using errcode = '23514', constraint = 'folded_below_log_start';
    end if;
    select w.batch_id, w.stream_id into stray from (select distinct batch_id, stream_id from was) w
    join lockstep.batch_range r on r.batch_id = w.batch_id and r.stream_id = w.stream_id
    join lockstep.claim k on k.stream_id = r.stream_id and k.offsets && r.offsets limit 1;
    if found then
        raise exception 'folded_unclaimed: batch % of stream % is claimed', stray.batch_id, stray.stream_id
            using errcode = '23514', constraint = 'folded_unclaimed';
    end if;
    select w.target, w.key into stray from (select distinct target, key from was) w
    where not exists (
        select from lockstep.window_state s join lockstep.target_owner o on o.store = '' and o.target = s.target
        join lockstep.event_time e using (pipeline)
        where s.target = w.target and s.key = w.key and e.watermark >= s.ends) limit 1;
    if found then
        raise exception 'folded_when_passed: window % of % is not over', stray.key, stray.target
            using errcode = '23514', constraint = 'folded_when_passed';
    end if;
    insert into lockstep.folded as f (target, batch_id, stream_id, records)
    select w.target, w.batch_id, w.stream_id, sum(w.records - w.folded)
    from was w join becomes b using (batch_id, stream_id, target, key)
    where b.records = 0 and w.records > 0 group by w.target, w.batch_id, w.stream_id
    on conflict on constraint folded_once do update set records = f.records + excluded.records;
    return null;
end $$;
create trigger folded_whole after update on contribution referencing old table as was new table as becomes
    for each statement execute function guard_folding();

-- What counts in a window goes with a claim on its segment, or when it has given up its records. What took in others' stays.
create function guard_contribution_gone() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    stray record;
begin
    select g.batch_id, g.stream_id, g.key into stray from gone g
    where g.records > 0 and exists (select from lockstep.window_state s where s.target = g.target and s.key = g.key)
      and (g.folded > 0 or not exists (
        select from lockstep.claim k where k.stream_id = g.stream_id and k.expects_batch = g.batch_id)) limit 1;
    if found then
        raise exception 'contribution_stays: batch % counts in window %', stray.batch_id, stray.key
            using errcode = '23514', constraint = 'contribution_stays';
    end if;
    return null;
end $$;
create trigger contribution_stays after delete on contribution referencing old table as gone
    for each statement execute function guard_contribution_gone();

grant select on folded to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
grant update (records, folded, totals), delete on contribution to lockstep_planner;
revoke execute on function guard_folding, guard_contribution_gone from public;
