-- A reject of which nothing was sent may pass later, also when the rows beside it are trimmed. Its offset is not trimmed with them.

-- Whether offsets of rejects are among them, as all that were trimmed before may be.
alter table trimmed add column with_rejects boolean not null default true;
alter table trimmed alter column with_rejects set default false;

-- As before, but for those offsets. Upkeep stays quick where rejects are many: a stream with more than 10,000 ranges takes whole ones.
create or replace function trim_feed(of_target text, most bigint) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    most_ranges constant int := 10000;
    of_feed lockstep.feed;
    sent bigint := (select r.confirmed from lockstep.relay r where r.target = of_target);
    until bigint;
begin
    if not pg_try_advisory_xact_lock(hashtextextended('lockstep.trim ' || of_target, 0)) then
        return 0;
    end if;
    select * into of_feed from lockstep.feed f where f.target = of_target;
    select max(s.ends) into until from (
        select c.first_number + c.changes as ends, row_number() over (order by c.first_number) as place,
            bool_and(c.at < clock_timestamp() - of_feed.keep and c.first_number + c.changes <= coalesce(sent, of_feed.next_number))
                over (order by c.first_number) as is_old
        from lockstep.change_set c
        where c.target = of_target and c.changes > 0 and c.first_number >= of_feed.kept_from
          and c.first_number < of_feed.kept_from + most) s
    where s.is_old and (s.place = 1 or s.ends <= of_feed.kept_from + most);
    if until is null then
        return 0;
    end if;
    if of_feed.sends then
        execute format('with whole as (
                select r.stream_id, range_agg(r.offsets) as offsets
                from lockstep.change_set c join lockstep.batch_range r using (batch_id)
                where c.target = $1 and c.changes > 0 and c.first_number >= $2 and c.first_number < $3
                group by r.stream_id),
            unsent as (
                select w.stream_id, range_agg(int8range(j."offset", j."offset" + 1)) as offsets
                from whole w join lockstep.reject j on j.stream_id = w.stream_id and w.offsets @> j."offset"
                where not exists (
                    select from lockstep_feed.%I i join lockstep.change_set c on c.change_set_id = i._change_set
                    where c.target = $1 and c.changes > 0 and c.first_number >= $2 and c.first_number < $3
                      and (i._stream, i._offset) = (j.stream_id, j."offset"))
                group by w.stream_id),
            trims as (
                select w.stream_id, w.offsets as whole, w.offsets - coalesce(u.offsets, ''{}'') as exact
                from whole w left join unsent u using (stream_id))
            insert into lockstep.trimmed as t (target, stream_id, offsets, with_rejects)
            select $1, s.stream_id, case when m.many then s.whole else s.exact end, m.many and s.whole <> s.exact
            from trims s left join lockstep.trimmed k on k.target = $1 and k.stream_id = s.stream_id
            cross join lateral (
                select count(*) > $4 as many from unnest(s.exact + coalesce(k.offsets, ''{}''))) m
            on conflict (target, stream_id) do update set offsets = t.offsets + excluded.offsets,
                with_rejects = t.with_rejects or excluded.with_rejects', of_feed.name)
            using of_target, of_feed.kept_from, until, most_ranges;
        execute format('delete from %s t using lockstep_feed.%I i, lockstep.change_set c
            where c.target = $1 and c.changes > 0 and c.first_number >= $2 and c.first_number < $3
              and i._change_set = c.change_set_id and (t._stream, t._offset, t._ordinal) = (i._stream, i._offset, i._ordinal)',
            of_target::regclass, of_feed.name) using of_target, of_feed.kept_from, until;
    end if;
    execute format('delete from lockstep_feed.%I i using lockstep.change_set c
        where c.target = $1 and c.changes > 0 and c.first_number >= $2 and c.first_number < $3
          and i._change_set = c.change_set_id', of_feed.name) using of_target, of_feed.kept_from, until;
    update lockstep.feed set kept_from = until where target = of_target;
    return until - of_feed.kept_from;
end $$;

-- A replay reads whole segments. Where it brings rows of which nothing was sent, those beside them that were sent and are trimmed
-- stay as they were sent: nobody can compare them. Without such rows, or where rejects may be trimmed, it is refused as before.
create function leave_trimmed(of_set bigint) returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    of_feed lockstep.feed;
begin
    select f.* into of_feed
    from lockstep.change_set c join lockstep.feed f using (target) join lockstep.batch b using (batch_id)
    where c.change_set_id = of_set and c.seq is null and c.xid = pg_current_xact_id() and f.sends and b.lane = 'replay';
    if not found then
        return;
    end if;
    execute format('with new as (
            select i._stream, i._offset, i._ordinal, x.with_rejects, coalesce(x.offsets @> i._offset, false) as is_trimmed
            from lockstep_feed.%1$I i left join lockstep.trimmed x on x.target = $2 and x.stream_id = i._stream
            where i._change_set = $1 and i._change = ''insert'' and not exists (
                select from lockstep_feed.%1$I d where d._change_set = $1 and d._change = ''delete''
                  and (d._stream, d._offset) = (i._stream, i._offset)))
        delete from %2$s t using new n
        where n.is_trimmed and (t._stream, t._offset, t._ordinal) = (n._stream, n._offset, n._ordinal)
          and exists (select from new where not is_trimmed)
          and not exists (select from new where is_trimmed and with_rejects)',
        of_feed.name, of_feed.target::regclass) using of_set, of_feed.target;
end $$;

-- Replaces what this transaction's open sets caught by its net effect.
create or replace function net_changes() returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform lockstep.leave_trimmed(c.change_set_id) from lockstep.change_set c where c.xid = pg_current_xact_id() and c.seq is null;
    perform lockstep.net_set(c.change_set_id) from lockstep.change_set c where c.xid = pg_current_xact_id() and c.seq is null;
end $$;
