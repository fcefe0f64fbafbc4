-- An hour whose rows have changed since it was told is told again, as its next revision.

-- How often an hour was told. Of several runs that have told one hour at once, the first keeps the word.
delete from hour_told t using hour_told earlier
where earlier.pipeline = t.pipeline and earlier.until = t.until and (earlier.at, earlier.told_by) < (t.at, t.told_by);
alter table hour_told add column revision int not null default 1;
alter table hour_told alter column revision drop default, drop constraint hour_told_pkey,
    add primary key (pipeline, until, revision);

-- Rows of the hour were replaced or erased after this revision was told. The first such change stands here for all.
create table hour_changed (
    pipeline text not null,
    until timestamptz not null,
    revision int not null,
    batch_id bigint references batch,
    erasure_id bigint references erasure,
    at timestamptz not null default clock_timestamp(),
    primary key (pipeline, until, revision),
    foreign key (pipeline, until, revision) references hour_told on update cascade,
    constraint one_change check (num_nonnulls(batch_id, erasure_id) = 1)
);
create index hours_by_offset on hour_offsets (stream_id, until_offset);

-- An hour is told once, and again for a change only, so revisions have no gap. A change under way is waited for: what it
-- has not found told is told behind it.
create function guard_telling() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform pg_advisory_xact_lock(hashtextextended('lockstep.hours ' || new.pipeline, 0));
    if new.revision <> 1 and not exists (
            select from lockstep.hour_changed c
            where c.pipeline = new.pipeline and c.until = new.until and c.revision = new.revision - 1) then
        raise exception 'told_for_a_change: nothing has changed in the hour until % of % after revision %',
            new.until, new.pipeline, new.revision - 1 using errcode = '23514', constraint = 'told_for_a_change';
    end if;
    return new;
end $$;
create trigger told_for_a_change before insert on hour_told for each row execute function guard_telling();

-- Notes the hours whose offsets changed, where they were told. Whoever is telling one is waited for.
create function note_change(streams int[], ranges int8range[], of_batch bigint, of_erasure bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform pg_advisory_xact_lock_shared(hashtextextended('lockstep.hours ' || p.pipeline, 0)) from (
        select distinct s.pipeline from lockstep.stream s where s.stream_id = any(streams) order by 1) p;
    insert into lockstep.hour_changed (pipeline, until, revision, batch_id, erasure_id)
    select o.pipeline, o.until, max(t.revision), of_batch, of_erasure
    from unnest(streams, ranges) as w (stream_id, offsets)
    cross join lateral (  -- hours tile: behind the first that reaches the end there is nothing to look for
        select min(l.until_offset) as last from lockstep.hour_offsets l
        where l.stream_id = w.stream_id and l.until_offset >= upper(w.offsets)) e
    join lockstep.hour_offsets o on o.stream_id = w.stream_id and o.from_offset < o.until_offset
        and o.from_offset < upper(w.offsets) and o.until_offset > lower(w.offsets)
        and o.until_offset <= coalesce(e.last, upper(w.offsets))
    join lockstep.hour_told t on t.pipeline = o.pipeline and t.until = o.until
    group by o.pipeline, o.until order by o.pipeline, o.until
    on conflict do nothing;
end $$;
revoke execute on function note_change from public;

create function note_replaced() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform lockstep.note_change(array_agg(r.stream_id), array_agg(r.offsets), r.batch_id, null)
    from added a join lockstep.batch b using (batch_id) join lockstep.batch_range r using (batch_id, stream_id)
    where b.lane <> 'live' group by r.batch_id order by r.batch_id;
    return null;
end $$;
create trigger change_is_noted after insert on commit referencing new table as added
    for each statement execute function note_replaced();

-- A reject that loses its bytes is no row of an hour.
create function note_erased() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform lockstep.note_change(array_agg(a.stream_id), array_agg(int8range(a."offset", a."offset" + 1)), null, a.erasure_id)
    from (
        select distinct x.erasure_id, x.stream_id, x."offset" from added x where x.relation <> 'lockstep.reject') a
    group by a.erasure_id order by a.erasure_id;
    return null;
end $$;
create trigger change_is_noted after insert on erased referencing new table as added
    for each statement execute function note_erased();

grant select on hour_changed to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
