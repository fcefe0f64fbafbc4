-- However long a stream's history is, its guards look at the neighbourhood only: coverage never overlaps, so in the order
-- of its beginnings the row that holds an offset is the last one that begins at or before it.

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

create or replace function guard_coverage() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
declare
    passed int8range;
begin
    if tg_op in ('INSERT', 'UPDATE') then
        if upper(new.offsets) > (select s.position from lockstep.stream s where s.stream_id = new.stream_id) then
            raise exception 'not_past_position: stream % is covered by % past its position', new.stream_id, new.offsets
                using errcode = '23514', constraint = 'not_past_position';
        end if;
    end if;
    if tg_op in ('UPDATE', 'DELETE') then
        select old.offsets * int8range(s.start_offset, s.position) into passed
        from lockstep.stream s where s.stream_id = old.stream_id;
        if not isempty(passed) and not lockstep.covers(old.stream_id, passed) then
            raise exception 'no_gap: coverage % of stream % is taken away below its position', passed, old.stream_id
                using errcode = '23514', constraint = 'no_gap';
        end if;
    end if;
    return null;
end $$;
