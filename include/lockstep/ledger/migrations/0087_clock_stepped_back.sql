-- A partition comes to no time that is not over. What it came to before the clock was stepped back stays, and is not asked again.
create or replace function guard_stream_time() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    risen timestamptz := greatest(new.seen, new.idle_at);
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if tg_op = 'UPDATE' then
        if (new.stream_id, new.opened_with) is distinct from (old.stream_id, old.opened_with)
                or coalesce(new.seen, '-infinity') < coalesce(old.seen, '-infinity')
                or coalesce(new.idle_at, '-infinity') < coalesce(old.idle_at, '-infinity') then
            raise exception 'time_rises: that of stream % would go back', new.stream_id
                using errcode = '23514', constraint = 'time_rises';
        end if;
        risen := greatest(
            case when new.seen is distinct from old.seen then new.seen end,
            case when new.idle_at is distinct from old.idle_at then new.idle_at end);
    end if;
    if risen > clock_timestamp() then
        raise exception 'not_ahead_of_clock: stream % would have come to %', new.stream_id, risen
            using errcode = '23514', constraint = 'not_ahead_of_clock';
    end if;
    return new;
end $$;
