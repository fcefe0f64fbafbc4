-- A restored ledger gives the numbers of its feeds again, to other changes. A feed has the id of its timeline, so that a reader of
-- a lost one is refused. `restored` alone draws a new one.

alter table feed add column timeline uuid not null default gen_random_uuid();
alter table feed add constraint timeline_once unique (timeline);

create function guard_feed_timeline() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if not exists (
        select from lockstep.decision d where d.kind = 'restored' and lockstep.is_of_this_transaction(d.xmin)) then
        raise exception 'timeline_by_decision: no decision of this transaction says that the ledger was restored, and the timeline of the feed of % changes',
            old.target using errcode = '23514', constraint = 'timeline_by_decision';
    end if;
    return new;
end $$;
create trigger timeline_by_decision before update on feed for each row
    when (new.timeline is distinct from old.timeline) execute function guard_feed_timeline();

-- As before, and each feed of the ledger begins a timeline: the whole database was restored, whichever pipeline is named first.
create or replace function pass_over(seen_token bigint, seen_batch bigint, seen_stream bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    room constant bigint := 1000;  -- for what nobody can see, and for who draws meanwhile
    each record;
begin
    if not exists (
        select from lockstep.decision d where d.kind = 'restored' and lockstep.is_of_this_transaction(d.xmin)) then
        raise exception 'passed_over_by_decision: no decision of this transaction says that the ledger was restored'
            using errcode = '23514', constraint = 'passed_over_by_decision';
    end if;
    perform pg_advisory_xact_lock(hashtextextended('lockstep.pass_over', 0));
    for each in
        select s.*, nextval(s.sequence) as at from (values
            ('lockstep.token_seq', seen_token::numeric + room, 2::numeric ^ 40, 2::numeric ^ 62),
            (pg_get_serial_sequence('lockstep.batch', 'batch_id'), seen_batch::numeric + room, 2::numeric ^ 40, 2::numeric ^ 62),
            (pg_get_serial_sequence('lockstep.stream', 'stream_id'), seen_stream::numeric, 2::numeric ^ 24, 2::numeric ^ 30)
        ) as s (sequence, seen, reach, half)
        order by s.seen > s.half desc, s.seen - nextval(s.sequence) - s.reach desc  -- nothing is passed over before a refusal
    loop
        if each.seen > each.at + each.reach or each.seen > each.half then
            raise exception 'passed_over_within_reach: % would go from % to %: at most % numbers are passed over at once, up to %',
                each.sequence, each.at, each.seen, each.reach::bigint, each.half::bigint
                using errcode = '23514', constraint = 'passed_over_within_reach';
        end if;
        if each.seen > each.at then
            perform setval(each.sequence, each.seen::bigint);
        end if;
    end loop;
    -- in the order in which a commit takes them
    for each in select f.target from lockstep.feed f order by f.target collate "C" loop
        update lockstep.feed set timeline = gen_random_uuid() where target = each.target;
    end loop;
end $$;
