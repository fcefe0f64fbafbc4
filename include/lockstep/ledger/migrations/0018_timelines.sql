-- One timeline: a ledger that went back in time draws batch ids and tokens again, and a random id tells the two apart.

-- Drawn by the client when an attempt is opened. Null: opened by code from before this migration.
alter table attempt add column nonce uuid;
create unique index nonce_once on attempt (nonce);

-- The fence is both: the number that orders attempts, and the id that no other timeline can have drawn.
alter table batch add column nonce uuid;
grant update (nonce) on batch to lockstep_stager;

create function guard_fence() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception 'nonce_with_token: the nonce of batch % changes without its token', old.batch_id
        using errcode = '23514', constraint = 'nonce_with_token';
end $$;
create trigger nonce_with_token before update of nonce on batch for each row
    when (old.nonce is distinct from new.nonce and old.token = new.token) execute function guard_fence();

-- The committer writes down which attempt it believes to be; the database compares.
alter table commit add column nonce uuid;
alter table delivery add column nonce uuid;

create function guard_timeline() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (
        select 1 from lockstep.attempt a
        where a.batch_id = new.batch_id and a.token = new.token and a.nonce is not distinct from new.nonce) then
        raise exception 'same_timeline: attempt % of batch % was opened in another timeline of the ledger',
            new.token, new.batch_id using errcode = '23514', constraint = 'same_timeline';
    end if;
    return new;
end $$;
create trigger same_timeline before insert on commit for each row execute function guard_timeline();
create trigger same_timeline before insert on delivery for each row execute function guard_timeline();

-- The name of an attempt's first staging table; the names of its other tables begin with it.
create function staging_name(of_batch bigint, of_token bigint, its_nonce uuid) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format('attempt_%s_%s', of_batch, of_token) || coalesce('_' || left(replace(its_nonce::text, '-', ''), 12), '')
$$;

-- Only the attempt's own tables become partitions.
create function guard_staged(staged regclass, of_batch bigint, of_token bigint) returns regclass
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (
        select 1 from pg_catalog.pg_class c, lockstep.attempt a
        where c.oid = staged and a.batch_id = of_batch and a.token = of_token
          and starts_with(c.relname || '_', lockstep.staging_name(a.batch_id, a.token, a.nonce) || '_')) then
        raise exception 'own_staging: attempt % of batch % has not staged %', of_token, of_batch, staged
            using errcode = '23514', constraint = 'own_staging';
    end if;
    return staged;
end $$;

-- After a restore: what is drawn from now on lies past everything that other places have seen. Never goes back.
create function pass_over(seen_token bigint, seen_batch bigint, seen_stream bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    room constant bigint := 1000;  -- for what nobody can see, and for who draws meanwhile
begin
    perform pg_advisory_xact_lock(hashtextextended('lockstep.pass_over', 0));
    if seen_token + room > nextval('lockstep.token_seq') then
        perform setval('lockstep.token_seq', seen_token + room);
    end if;
    if seen_batch + room > nextval(pg_get_serial_sequence('lockstep.batch', 'batch_id')) then
        perform setval(pg_get_serial_sequence('lockstep.batch', 'batch_id'), seen_batch + room);
    end if;
    if seen_stream >= nextval(pg_get_serial_sequence('lockstep.stream', 'stream_id')) then
        perform setval(pg_get_serial_sequence('lockstep.stream', 'stream_id'), seen_stream);
    end if;
end $$;

revoke execute on function guard_staged, pass_over from public;
grant execute on function guard_staged to lockstep_committer;
grant execute on function pass_over to lockstep_planner;

-- A person says that the ledger was restored. Whatever kinds there are by now stay allowed.
do $$
declare
    rule record;
begin
    select conname, pg_get_expr(conbin, conrelid) as allowed into strict rule from pg_catalog.pg_constraint
    where conrelid = 'lockstep.decision'::regclass and contype = 'c' and pg_get_expr(conbin, conrelid) like '%kind%';
    execute format('alter table lockstep.decision drop constraint %1$I, add constraint %1$I check ((%2$s) or kind = ''restored'')',
        rule.conname, rule.allowed);
end $$;
