-- A relay sends a feed to one topic. Its cursor is in Kafka, in the transactions of the records. The ledger keeps what it
-- intends and what is confirmed.

create table relay (
    target text primary key references feed,
    topic text not null,
    cluster_id text,  -- null, as the next two: no relay has looked at the topic yet
    topic_id text,
    partitions int check (partitions > 0),
    transactional_id text not null,
    token bigint not null default 0,  -- of the relay that came last
    held_by text,
    held_until timestamptz not null default '-infinity',
    began_at bigint not null,  -- the first number that is sent
    confirmed bigint not null,  -- the changes below it are in Kafka
    intent bigint,  -- the end of the transaction under way
    restarted_by bigint references decision,
    moved_at timestamptz not null default clock_timestamp(),
    constraint known_whole check (num_nulls(cluster_id, topic_id, partitions) in (0, 3)),
    constraint one_writer unique (transactional_id),
    constraint one_feed_a_topic unique (cluster_id, topic),
    constraint intent_ahead check (began_at >= 0 and confirmed >= began_at and intent > confirmed)
) with (fillfactor = 50);

-- What is confirmed stays so, of the same log. A person's decision alone begins anew elsewhere.
create function guard_relay() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    of_feed lockstep.feed;
begin
    select * into of_feed from lockstep.feed f where f.target = new.target;
    if tg_op = 'INSERT' then
        if (new.began_at, new.confirmed, new.token) = (of_feed.kept_from, of_feed.kept_from, 0) and new.intent is null then
            return new;
        end if;
    elsif (new.target, new.transactional_id) = (old.target, old.transactional_id) and new.token >= old.token
            and new.confirmed <= of_feed.next_number and (new.intent is null or new.intent <= of_feed.next_number) then
        if new.restarted_by is distinct from old.restarted_by then
            if new.began_at = new.confirmed and new.confirmed >= of_feed.kept_from and new.intent is null and exists (
                    select from lockstep.decision d where d.decision_id = new.restarted_by and d.kind = 'restart-relay'
                      and d.detail ->> 'target' = new.target and (d.detail ->> 'number')::bigint = new.confirmed) then
                return new;
            end if;
        elsif new.confirmed >= old.confirmed and (new.topic, new.began_at) = (old.topic, old.began_at)
                and (old.topic_id is null or (new.cluster_id, new.topic_id, new.partitions)
                    is not distinct from (old.cluster_id, old.topic_id, old.partitions)) then
            return new;
        end if;
    end if;
    raise exception 'confirmed_rises: the relay of % goes from % (number %) to % (number %) without a decision',
        new.target, old.topic, old.confirmed, new.topic, new.confirmed
        using errcode = '23514', constraint = 'confirmed_rises';
end $$;
create trigger confirmed_rises before insert or update on relay for each row execute function guard_relay();

-- What the relay has not sent is not trimmed.
create function guard_trimmed() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if exists (select from lockstep.relay r where r.target = new.target and r.confirmed < new.kept_from) then
        raise exception 'told_before_trimmed: changes of % below number % are trimmed, and not all of them are sent',
            new.target, new.kept_from using errcode = '23514', constraint = 'told_before_trimmed';
    end if;
    return new;
end $$;
create trigger told_before_trimmed before update of kept_from on feed for each row execute function guard_trimmed();

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
    execute format('delete from lockstep_feed.%I i using lockstep.change_set c
        where c.target = $1 and c.changes > 0 and c.first_number >= $2 and c.first_number < $3
          and i._change_set = c.change_set_id', of_feed.name) using of_target, of_feed.kept_from, until;
    update lockstep.feed set kept_from = until where target = of_target;
    return until - of_feed.kept_from;
end $$;

-- A kind of decision more.
do $$
declare
    kinds text := (select pg_get_constraintdef(oid) from pg_constraint
        where conrelid = 'lockstep.decision'::regclass and conname = 'decision_kind_check');
begin
    if strpos(kinds, '''hand-over''::text') = 0 then
        raise exception 'decision_kind_check is not as migration 0040 made it: %', kinds;
    end if;
    alter table decision drop constraint decision_kind_check;
    execute format('alter table decision add constraint decision_kind_check %s',
        replace(kinds, '''hand-over''::text', '''hand-over''::text, ''restart-relay''::text'));
end $$;

grant select on relay to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
grant update on relay to lockstep_planner;
revoke execute on function guard_relay, guard_trimmed from public;
