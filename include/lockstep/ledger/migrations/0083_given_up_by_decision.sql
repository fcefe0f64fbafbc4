-- Offsets that no batch has read are given up by a person alone. The decision that names them is in the same transaction.

-- Whether this transaction wrote a row, by the row's xmin. A row of a savepoint has the number of that savepoint.
create function is_of_this_transaction(its xid) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    ours bigint := pg_current_xact_id()::text::bigint;
    later bigint := ((its::text::bigint - ours) % 4294967296 + 4294967296) % 4294967296;
begin
    if later = 0 then
        return true;
    end if;
    -- a savepoint's number is a later one; what lies far ahead is an old one, from before the numbers began again
    if its::text::bigint < 3 or later > 1000000000 then
        return false;
    end if;
    begin
        return pg_xact_status((ours + later)::text::xid8) = 'in progress';
    exception when invalid_parameter_value then
        return false;  -- no transaction has that number yet
    end;
end $$;

-- Which offsets a decision gives up.
create function given_up(of_kind text, detail jsonb) returns int8range
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case
        when of_kind in ('skip', 'accept-loss') and detail ->> 'stream_id' ~ '^[0-9]{1,9}$' and detail ->> 'from_offset' ~ '^[0-9]{1,18}$'
            and detail ->> 'until_offset' ~ '^[0-9]{1,18}$'
        then case when (detail ->> 'from_offset')::bigint < (detail ->> 'until_offset')::bigint
            then int8range((detail ->> 'from_offset')::bigint, (detail ->> 'until_offset')::bigint) end end
$$;
grant execute on function given_up(text, jsonb) to lockstep_planner, lockstep_committer, lockstep_partition, lockstep_reader;

-- Not valid: older ones that somebody wrote by hand stay.
alter table decision add constraint given_up_is_told check (
    kind not in ('skip', 'accept-loss') or coalesce(case
        when detail ->> 'stream_id' ~ '^[0-9]{1,9}$' and detail ->> 'from_offset' ~ '^[0-9]{1,18}$'
            and detail ->> 'until_offset' ~ '^[0-9]{1,18}$'
        then (detail ->> 'from_offset')::bigint < (detail ->> 'until_offset')::bigint end, false)) not valid;
create index given_up_of_stream on decision ((detail ->> 'stream_id')) where kind in ('skip', 'accept-loss');

-- Skipped offsets that made room, and by which transaction: what a fill leaves of them stays skipped. No role writes here.
create table lifted (
    stream_id int not null references stream,
    offsets int8range not null,
    xid xid8 not null default pg_current_xact_id(),
    at timestamptz not null default clock_timestamp()
);
create index lifted_of_stream on lifted (stream_id, xid);
grant select on lifted to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;

-- A row that this transaction itself has written was never decided.
create function note_lifted() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    insert into lockstep.lifted (stream_id, offsets)
    select c.stream_id, c.offsets from lockstep.coverage c
    where int4range(c.stream_id, c.stream_id, '[]') && int4range(old.stream_id, old.stream_id, '[]')
      and c.offsets && old.offsets and c.offsets = old.offsets and not lockstep.is_of_this_transaction(c.xmin);
    return case tg_op when 'DELETE' then old else new end;
end $$;
create trigger lifted_is_noted before delete or update on coverage
for each row when (old.kind = 'skipped') execute function note_lifted();

create function guard_given_up() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    decided int8multirange;
    of_kind text := case new.kind when 'loss' then 'accept-loss' else 'skip' end;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select coalesce(range_agg(o.offsets), '{}') into decided from (
        select lockstep.given_up(d.kind, d.detail) as offsets
        from lockstep.decision d join lockstep.stream s on s.pipeline = d.pipeline
        where s.stream_id = new.stream_id and d.kind in ('skip', 'accept-loss') and d.kind = of_kind
          and d.detail ->> 'stream_id' = new.stream_id::text and lockstep.is_of_this_transaction(d.xmin)
        union all
        select l.offsets from lockstep.lifted l
        where new.kind = 'skipped' and l.stream_id = new.stream_id and l.xid = pg_current_xact_id()
          and lockstep.is_of_this_transaction(l.xmin)) o;
    if not decided @> new.offsets then
        raise exception 'given_up_by_decision: no decision of this transaction gives up % of stream %: lockstep % names offsets and a reason',
            int8multirange(new.offsets) - decided, new.stream_id, of_kind
            using errcode = '23514', constraint = 'given_up_by_decision';
    end if;
    return null;
end $$;
create constraint trigger given_up_by_decision after insert or update on coverage
deferrable initially deferred for each row when (new.kind <> 'batch') execute function guard_given_up();
