-- A feed tells what each commit did to a table, change by change, in the order of the commits.

-- One row for each table with a feed. Its lock is the last one that a commit takes: who numbers later commits later.
create table feed (
    target text primary key,  -- schema.table, in lower case
    name text not null,  -- of the table with the images, in schema lockstep_feed
    key text[] not null,
    keep interval not null,
    last_seq bigint not null default 0,
    next_number bigint not null default 0,
    kept_from bigint not null default 0,  -- the images of older changes are trimmed
    began_empty boolean not null,  -- false: rows that the table had at first were never announced
    opened_at timestamptz not null default clock_timestamp(),
    constraint one_name unique (name),
    constraint keeps_something check (keep > interval '0'),
    constraint feed_forward check (0 <= kept_from and kept_from <= next_number and 0 <= last_seq)
) with (fillfactor = 50);

-- What one commit did to one target: so many changes from `first_number` on, as the `seq`-th set. Number and seq have no gap.
create table change_set (
    change_set_id bigint generated always as identity primary key,
    target text not null references feed,
    kind text not null check (kind in ('batch', 'manual')),
    batch_id bigint references batch,
    stream_id int references stream,  -- null: all ranges of the batch
    why text,
    at timestamptz not null default clock_timestamp(),
    xid xid8 not null default pg_current_xact_id(),
    seq bigint,
    first_number bigint,
    changes bigint check (changes >= 0),
    constraint kind_says_whose check (
        (kind = 'batch') = (batch_id is not null) and (kind = 'manual') = (why is not null)
        and (stream_id is null or kind = 'batch')),
    constraint numbered_whole check (num_nulls(seq, first_number, changes) in (0, 3)),
    constraint seq_once unique (target, seq)
) with (fillfactor = 70);
create unique index one_set_a_commit on change_set (target, batch_id, coalesce(stream_id, -1)) where batch_id is not null;
create unique index number_once on change_set (target, first_number) where changes > 0;
create unique index one_open_set on change_set (xid, target) where seq is null;
create index change_set_of_batch on change_set (batch_id);

-- A feed moves on by the set that was just numbered, and not otherwise. What was trimmed stays trimmed.
create function guard_feed() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if (new.target, new.name, new.key, new.began_empty) is distinct from (old.target, old.name, old.key, old.began_empty)
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
create trigger feed_by_one before update on feed for each row execute function guard_feed();

-- A set is opened without a number. It is numbered once, by the transaction that made it, with the feed's next number, and
-- tells as many changes as there are.
create function guard_numbering() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    of_feed lockstep.feed;
    counted record;
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
            return new;
        end if;
    end if;
    raise exception 'numbered_once: set % of % is not numbered by its own transaction, once and in turn',
        new.change_set_id, new.target using errcode = '23514', constraint = 'numbered_once';
end $$;
create trigger numbered_once before insert or update on change_set for each row execute function guard_numbering();

-- What a replay or a person did to each key, in one change: the first image before and the last one after. A key whose values
-- came back as they were has not changed.
create function net_set(of_set bigint) returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    of_feed lockstep.feed;
    names text;
    keys text;
    was text;
    is_now text;
begin
    select f.* into of_feed from lockstep.feed f join lockstep.change_set c using (target)
    where c.change_set_id = of_set and c.seq is null and c.xid = pg_current_xact_id();
    if not found then
        return;
    end if;
    select string_agg(format('%I', k), ', ' order by ordinality) into keys
    from unnest(of_feed.key) with ordinality u (k, ordinality);
    select string_agg(format('%I', attname), ', ' order by attnum),
        string_agg(format('(b."Row").%I', attname), ', ' order by attnum) filter (where not is_origin),
        string_agg(format('(a."Row").%I', attname), ', ' order by attnum) filter (where not is_origin)
    into names, was, is_now
    from (
        select attname, attnum, attname in ('_stream', '_offset', '_ordinal', '_batch') as is_origin from pg_attribute
        where attrelid = format('lockstep_feed.%I', of_feed.name)::regclass and attnum > 0 and not attisdropped
          and attname not in ('_change', '_change_set', '_ordinal_in_set')) c;
    -- Names in capitals are none of a key's columns.
    execute format($sql$
        with gone as (
            delete from lockstep_feed.%1$I t where _change_set = $1
            returning %2$s, t as "Row", _change as "Change", _ordinal_in_set as "Place"),
        image as (
            select gone.*,
                row_number() over (partition by %2$s order by "Place", "Change" = 'after') as "Up",
                row_number() over (partition by %2$s order by "Place" desc, "Change" = 'after' desc) as "Down"
            from gone),
        net as (
            select row_number() over (order by %2$s) - 1 as "Place", b."Row" as "Before", a."Row" as "After",
                b."Up" is not null as "Was", a."Up" is not null as "Is"
            from (select * from image where "Up" = 1 and "Change" in ('before', 'delete')) b
            full join (select * from image where "Down" = 1 and "Change" in ('after', 'insert')) a using (%2$s)
            where b."Up" is null or a."Up" is null or not row(%3$s)::record *= row(%4$s)::record),
        told ("Row", "Change", "Place") as (
            select "Before", case when "Is" then 'before' else 'delete' end, "Place" from net where "Was"
            union all
            select "After", case when "Was" then 'after' else 'insert' end, "Place" from net where "Is")
        insert into lockstep_feed.%1$I (%5$s, _change, _change_set, _ordinal_in_set)
        select %6$s, "Change", $1, "Place" from told$sql$,
        of_feed.name, keys, was, is_now, names,
        (select string_agg(format('("Row").%s', n), ', ' order by ordinality)
         from unnest(string_to_array(names, ', ')) with ordinality u (n, ordinality))) using of_set;
end $$;

-- Gives a set the feed's next numbers. From here on the feed is this transaction's, until its COMMIT.
create function number_set(of_set bigint) returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    of_feed lockstep.feed;
    told bigint;
begin
    select f.* into of_feed from lockstep.feed f
    where f.target = (select c.target from lockstep.change_set c where c.change_set_id = of_set) for no key update;
    execute format('select coalesce(max(_ordinal_in_set) + 1, 0) from lockstep_feed.%I where _change_set = $1', of_feed.name)
        into told using of_set;
    update lockstep.change_set set seq = of_feed.last_seq + 1, first_number = of_feed.next_number, changes = told
    where change_set_id = of_set;
    update lockstep.feed set last_seq = of_feed.last_seq + 1, next_number = of_feed.next_number + told
    where target = of_feed.target;
end $$;

-- No set is committed without its number. A person's is numbered here, at the COMMIT.
create function guard_numbered() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    of_set lockstep.change_set;
    of_feed lockstep.feed;
begin
    select * into of_set from lockstep.change_set c where c.change_set_id = new.change_set_id;
    if of_set.kind = 'manual' and of_set.seq is null then
        perform lockstep.net_set(new.change_set_id);
        perform lockstep.number_set(new.change_set_id);
        return null;
    end if;
    select * into of_feed from lockstep.feed f where f.target = new.target;
    if of_set.seq is null or of_feed.last_seq < of_set.seq
            or of_feed.next_number < of_set.first_number + of_set.changes then
        raise exception 'change_set_is_numbered: set % of % has no number of the feed''s', new.change_set_id, new.target
            using errcode = '23514', constraint = 'change_set_is_numbered';
    end if;
    return null;
end $$;
create constraint trigger change_set_is_numbered after insert on change_set
    deferrable initially deferred for each row execute function guard_numbered();

-- A commit tells each feed of its pipeline's tables what it did, were it nothing, in its own transaction.
create function guard_told() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    untold record;
begin
    select a.batch_id, f.target into untold
    from added a join lockstep.batch b using (batch_id)
    join lockstep.target_owner o on o.pipeline = b.pipeline and o.store = ''
    join lockstep.feed f on f.target = o.target
    where not exists (
        select 1 from lockstep.change_set c where c.target = f.target and c.batch_id = a.batch_id
          and (c.stream_id is null or c.stream_id = a.stream_id) and c.xid = pg_current_xact_id())
    limit 1;
    if found then
        raise exception 'commit_is_told: batch % has not told the feed of % what it did', untold.batch_id, untold.target
            using errcode = '23514', constraint = 'commit_is_told';
    end if;
    return null;
end $$;
create trigger commit_is_told after insert on commit referencing new table as added
    for each statement execute function guard_told();

-- On every table with a feed: its argument is the table's name. Images of the rows that a statement changed go to the set that
-- this transaction has opened. Without one the statement is refused, as is one that removes all rows unseen.
create function capture() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
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

-- What keeps a table from being followed, in words; null: nothing. Images need the table's columns, and its four triggers.
create function feed_misses(of_target text) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select case
        when f.target is null then 'it has no feed yet'
        when to_regclass(of_target) is null then 'it is not there'
        when (select count(*) from pg_trigger t where t.tgrelid = to_regclass(of_target) and t.tgfoid = 'lockstep.capture'::regproc
              and t.tgenabled in ('O', 'A') and t.tgargs = convert_to(of_target, 'UTF8') || '\x00'::bytea) <> 4
            then 'its changes are not caught: a trigger is gone or disabled'
        else (
            select 'its column ' || a.attname || ' is not that of the feed' from pg_attribute a
            where a.attrelid = to_regclass(of_target) and a.attnum > 0 and not a.attisdropped and not exists (
                select from pg_attribute i
                where i.attrelid = to_regclass(format('lockstep_feed.%I', f.name)) and not i.attisdropped
                  and (i.attname, i.atttypid, i.atttypmod) = (a.attname, a.atttypid, a.atttypmod))
            union all
            select 'it has lost the column ' || i.attname || ', which its feed tells of' from pg_attribute i
            where i.attrelid = to_regclass(format('lockstep_feed.%I', f.name)) and i.attnum > 0 and not i.attisdropped
              and i.attname not in ('_change', '_change_set', '_ordinal_in_set') and not exists (
                select from pg_attribute a
                where a.attrelid = to_regclass(of_target) and not a.attisdropped and a.attname = i.attname)
            limit 1) end
    from (select of_target as wanted) w left join lockstep.feed f on f.target = w.wanted
$$;

-- Opens the set of a commit for one target, before its first row is written. Under commits by range it is a range's.
create function open_changes(of_target text, of_batch bigint, of_stream int) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    misses text := lockstep.feed_misses(of_target);
begin
    if misses is null then
        insert into lockstep.change_set (target, kind, batch_id, stream_id) values (of_target, 'batch', of_batch, of_stream);
    end if;
    return misses;
end $$;

-- Replaces what this transaction's open sets caught by its net effect.
create function net_changes() returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform lockstep.net_set(c.change_set_id) from lockstep.change_set c where c.xid = pg_current_xact_id() and c.seq is null;
end $$;

-- The last statement of a commit: numbers this transaction's open sets, in the one order of the targets' names.
create function number_changes() returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    each record;
begin
    for each in
        select c.change_set_id from lockstep.change_set c where c.xid = pg_current_xact_id() and c.seq is null
        order by c.target collate "C"
    loop
        perform lockstep.number_set(each.change_set_id);
    end loop;
end $$;

-- Opens a set for a person's own statements in this transaction. The decision says who and why.
create function manual_change(of_target text, why text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    misses text := lockstep.feed_misses(of_target);
    owner text := (select min(o.pipeline) from lockstep.target_owner o where o.store = '' and o.target = of_target);
    opened bigint;
    stated text := current_setting('lockstep.ledger_version', true);
begin
    if misses is not null or owner is null then
        raise exception 'no_feed: %: %', of_target, coalesce(misses, 'no pipeline owns it') using errcode = '23514', constraint = 'no_feed';
    end if;
    perform pg_advisory_xact_lock(hashtextextended('lockstep.target ' || of_target, 0));
    insert into lockstep.change_set (target, kind, why) values (of_target, 'manual', why) returning change_set_id into opened;
    -- A person's session states no version of a code: this one is the ledger's own.
    perform set_config('lockstep.ledger_version', (select max(m.version) from lockstep.migration m)::text, true);
    insert into lockstep.decision (pipeline, kind, who, why, detail)
    values (owner, 'manual-change', session_user, why, jsonb_build_object('target', of_target, 'change_set', opened));
    perform set_config('lockstep.ledger_version', coalesce(stated, ''), true);
    return opened;
end $$;

-- Trims images of whole sets that are older than the feed keeps, the oldest first: at most so many changes, and at least a set.
-- The feed's row is locked last, as a commit does.
create function trim_feed(of_target text, most bigint) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    of_feed lockstep.feed;
    until bigint;
begin
    if not pg_try_advisory_xact_lock(hashtextextended('lockstep.trim ' || of_target, 0)) then
        return 0;
    end if;
    select * into of_feed from lockstep.feed f where f.target = of_target;
    select max(s.ends) into until from (
        select c.first_number + c.changes as ends, row_number() over (order by c.first_number) as place,
            bool_and(c.at < clock_timestamp() - of_feed.keep) over (order by c.first_number) as is_old
        from lockstep.change_set c
        where c.target = of_target and c.changes > 0 and c.first_number >= of_feed.kept_from
          and c.first_number < of_feed.kept_from + most) s
    where s.is_old and (s.place = 1 or s.ends <= of_feed.kept_from + most);
    if until is null then
        return 0;
    end if;
    execute format('delete from lockstep_feed.%I i using lockstep.change_set c
        where c.target = $1 and c.changes > 0 and c.first_number >= $2 and c.first_number < $3
          and i._change_set = c.change_set_id', of_feed.name) using of_target, of_feed.kept_from, until;
    update lockstep.feed set kept_from = until where target = of_target;
    return until - of_feed.kept_from;
end $$;

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
        replace(kinds, '''hand-over''::text', '''hand-over''::text, ''manual-change''::text'));
end $$;

grant select on feed, change_set to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
revoke execute on function capture, net_set, number_set, feed_misses, open_changes, net_changes, number_changes, manual_change,
    trim_feed from public;
grant execute on function open_changes, net_changes, number_changes to lockstep_committer, lockstep_partition;
grant execute on function feed_misses to lockstep_reader, lockstep_planner;
grant execute on function manual_change, trim_feed to lockstep_planner;
