-- However long a stream's history is, a move of its position looks at the neighbourhood only: coverage never overlaps, so in
-- the order of its beginnings the row that holds an offset is the last one that begins at or before it.

create function covers(stream int, wanted int8range) returns boolean language plpgsql stable set search_path = pg_catalog as $$
declare
    first_one bigint;  -- where the row begins that holds the first offset
    covered int8multirange;
begin
    select lower(c.offsets) into first_one from lockstep.coverage c
    where c.stream_id = stream and lower(c.offsets) <= lower(wanted) order by lower(c.offsets) desc limit 1;
    select range_agg(c.offsets) into covered from lockstep.coverage c
    where c.stream_id = stream and lower(c.offsets) >= first_one and lower(c.offsets) < upper(wanted);
    return coalesce(covered @> wanted, false);
end $$;

create or replace function guard_position() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
    if tg_op = 'INSERT' then
        if new.position <> new.start_offset then
            raise exception 'no_gap: stream % is born at %, past its start %', new.stream_id, new.position, new.start_offset
                using errcode = '23514', constraint = 'no_gap';
        end if;
        return null;
    end if;
    if new.position < old.position then
        raise exception 'no_gap: the position of stream % moves back from % to %', new.stream_id, old.position, new.position
            using errcode = '23514', constraint = 'no_gap';
    end if;
    if new.position > old.position and not lockstep.covers(new.stream_id, int8range(old.position, new.position)) then
        raise exception 'no_gap: stream % moves over [%, %), which is not all covered',
            new.stream_id, old.position, new.position using errcode = '23514', constraint = 'no_gap';
    end if;
    return null;
end $$;
