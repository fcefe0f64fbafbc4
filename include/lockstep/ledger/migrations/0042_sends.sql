-- A target may send its rows to a topic and need no table of an author's: its table is what its feed keeps.

alter table feed add column sends boolean not null default false;

-- Of each stream, the offsets of batches whose sent rows are trimmed. Nobody can compare what was sent of them any more.
create table trimmed (
    target text not null references feed,
    stream_id int not null references stream,
    offsets int8multirange not null,
    primary key (target, stream_id)
) with (fillfactor = 70);

-- What was trimmed once is never known again.
create function guard_trimmed_offsets() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_op = 'UPDATE' and (new.target, new.stream_id) = (old.target, old.stream_id) and new.offsets @> old.offsets then
        return new;
    end if;
    raise exception 'trimmed_stays: the offsets % of stream % of % are trimmed', old.offsets, old.stream_id, old.target
        using errcode = '23514', constraint = 'trimmed_stays';
end $$;
create trigger trimmed_stays before update or delete on trimmed for each row execute function guard_trimmed_offsets();

-- What a set would take back of rows that were sent: how many would be others, be gone, or be sent again. A replay may send
-- records of which nothing was sent, and only those: trimmed ones cannot be compared, and a record is sent whole.
create function unsaid(of_set bigint, out changed bigint, out gone bigint, out again bigint)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    of_feed lockstep.feed;
    lane text;
begin
    select f.* into of_feed from lockstep.feed f join lockstep.change_set c using (target) where c.change_set_id = of_set;
    select b.lane into lane from lockstep.change_set c join lockstep.batch b using (batch_id) where c.change_set_id = of_set;
    execute format('select count(*) filter (where _change = ''after''), count(*) filter (where _change = ''delete'')
        from lockstep_feed.%I where _change_set = $1', of_feed.name) into changed, gone using of_set;
    again := 0;
    if lane = 'replay' then
        execute format('with new as (
                select _stream, _offset, count(*) as rows from lockstep_feed.%1$I
                where _change_set = $1 and _change = ''insert'' group by 1, 2)
            select coalesce(sum(rows), 0) from new
            where rows <> (select count(*) from %2$s t where t._stream = new._stream and t._offset = new._offset)
              or exists (select from lockstep.trimmed x
                  where x.target = $2 and x.stream_id = new._stream and x.offsets @> new._offset)',
            of_feed.name, of_feed.target::regclass) into again using of_set, of_feed.target;
    end if;
end $$;

-- A feed sends for good, or never.
create or replace function guard_feed() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if (new.target, new.name, new.key, new.began_empty, new.sends) is distinct from (old.target, old.name, old.key, old.began_empty, old.sends)
            or new.kept_from < old.kept_from
            or (new.last_seq, new.next_number) is distinct from (old.last_seq, old.next_number) and not exists (
                select 1 from lockstep.change_set c where c.target = new.target and c.seq = new.last_seq
                  and c.seq = old.last_seq + 1 and c.first_number = old.next_number
                  and c.first_number + c.changes = new.next_number and c.xid = pg_current_xact_id()) then
        raise exception 'feed_by_one: the feed of % goes from seq % to %, from number % to %',
            new.target, old.last_seq, new.last_seq, old.next_number, new.next_number
            using errcode = '23514', constraint = 'feed_by_one';
    end if;
    return new;
end $$;

-- A set is numbered as before. What was sent stays: nothing that commits takes it back.
create or replace function guard_numbering() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    of_feed lockstep.feed;
    counted record;
    taken_back record;
begin
    if tg_op = 'INSERT' then
        if new.seq is null and new.xid = pg_current_xact_id() then
            return new;
        end if;
    else
        select * into of_feed from lockstep.feed f where f.target = new.target;
        if old.seq is null and old.xid = pg_current_xact_id()
                and (new.seq, new.first_number) = (of_feed.last_seq + 1, of_feed.next_number)
                and (new.change_set_id, new.target, new.kind, new.batch_id, new.stream_id, new.why, new.at, new.xid)
                    is not distinct from
                    (old.change_set_id, old.target, old.kind, old.batch_id, old.stream_id, old.why, old.at, old.xid) then
            execute format('select count(*) filter (where _change <> ''before'') as changes, max(_ordinal_in_set) as last
                from lockstep_feed.%I where _change_set = $1', of_feed.name) into counted using new.change_set_id;
            if counted.changes <> new.changes or coalesce(counted.last + 1, 0) <> new.changes then
                raise exception 'changes_counted: % changes of % are there, % were told',
                    counted.changes, new.target, new.changes using errcode = '23514', constraint = 'changes_counted';
            end if;
            select * into taken_back from lockstep.unsaid(new.change_set_id) where of_feed.sends;
            if taken_back.changed + taken_back.gone + taken_back.again > 0 or of_feed.sends and new.kind <> 'batch' then
                raise exception 'sent_stays: what was sent of % stays: % rows would be others, % would be gone, % would be sent again',
                    new.target, taken_back.changed, taken_back.gone, taken_back.again
                    using errcode = '23514', constraint = 'sent_stays';
            end if;
            return new;
        end if;
    end if;
    raise exception 'numbered_once: set % of % is not numbered by its own transaction, once and in turn',
        new.change_set_id, new.target using errcode = '23514', constraint = 'numbered_once';
end $$;

-- Images as before. Upkeep alone takes rows away that were sent.
create or replace function capture() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    of_feed lockstep.feed;
    of_set lockstep.change_set;
    base bigint;
    names text;
    keys text;
    moved boolean;
begin
    select * into of_feed from lockstep.feed f where f.target = tg_argv[0];
    select * into of_set from lockstep.change_set c
    where c.target = tg_argv[0] and c.xid = pg_current_xact_id() and c.seq is null;
    if of_set.change_set_id is null and tg_op = 'DELETE' and exists (
            select from lockstep.trimmed t where t.target = tg_argv[0] and t.xmin = pg_current_xact_id()::xid) then
        return null;  -- upkeep trims rows with the images of their changes
    end if;
    if of_set.change_set_id is null or tg_op = 'TRUNCATE' then
        raise exception 'only_by_commit: % has a feed, and % is no change that it is told of', tg_argv[0], lower(tg_op)
            using errcode = '23514', constraint = 'only_by_commit',
            hint = format('select lockstep.manual_change(%L, ''why'')', tg_argv[0]);
    end if;
    select string_agg(format('%I', attname), ', ' order by attnum) into names
    from pg_attribute where attrelid = tg_relid and attnum > 0 and not attisdropped;
    select string_agg(format('%I', k), ', ' order by ordinality) into keys
    from unnest(of_feed.key) with ordinality u (k, ordinality);
    execute format('select coalesce(max(_ordinal_in_set) + 1, 0) from lockstep_feed.%I where _change_set = $1', of_feed.name)
        into base using of_set.change_set_id;
    if tg_op = 'UPDATE' and of_set.kind = 'manual' then
        execute format('select exists (select %1$s from old_rows except select %1$s from new_rows)', keys) into moved;
        if moved then
            raise exception 'key_stays: a row of % gets another key (%); delete it and insert another', tg_argv[0], keys
                using errcode = '23514', constraint = 'key_stays';
        end if;
    end if;
    if tg_op in ('DELETE', 'UPDATE') then
        execute format('insert into lockstep_feed.%1$I (%2$s, _change, _change_set, _ordinal_in_set)
            select %2$s, $1, $2, $3 + row_number() over (order by %3$s) - 1 from old_rows', of_feed.name, names, keys)
            using case tg_op when 'DELETE' then 'delete' else 'before' end, of_set.change_set_id, base;
    end if;
    if tg_op in ('INSERT', 'UPDATE') then
        execute format('insert into lockstep_feed.%1$I (%2$s, _change, _change_set, _ordinal_in_set)
            select %2$s, $1, $2, $3 + row_number() over (order by %3$s) - 1 from new_rows', of_feed.name, names, keys)
            using case tg_op when 'INSERT' then 'insert' else 'after' end, of_set.change_set_id, base;
    end if;
    return null;
end $$;

-- Trims as before. Rows that were sent go with their images, and their offsets are written down first.
create or replace function trim_feed(of_target text, most bigint) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
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
        insert into lockstep.trimmed as t (target, stream_id, offsets)
        select of_target, r.stream_id, range_agg(r.offsets) from lockstep.change_set c join lockstep.batch_range r using (batch_id)
        where c.target = of_target and c.changes > 0 and c.first_number >= of_feed.kept_from and c.first_number < until
        group by r.stream_id
        on conflict (target, stream_id) do update set offsets = t.offsets + excluded.offsets;
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

grant select on trimmed to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
revoke execute on function guard_trimmed_offsets, unsaid from public;
grant execute on function unsaid to lockstep_committer;
