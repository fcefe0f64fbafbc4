-- The promises as constraints: what a single row cannot say is checked at COMMIT, whoever the role is then.

create function guard_position() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
declare
    covered int8multirange;
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
    if new.position > old.position then
        select range_agg(c.offsets) into covered from lockstep.coverage c
        where int4range(c.stream_id, c.stream_id, '[]') && int4range(new.stream_id, new.stream_id, '[]')
          and c.offsets && int8range(old.position, new.position);
        if covered is null or not covered @> int8range(old.position, new.position) then
            raise exception 'no_gap: stream % moves over [%, %), which is not all covered',
                new.stream_id, old.position, new.position using errcode = '23514', constraint = 'no_gap';
        end if;
    end if;
    return null;
end $$;
create constraint trigger no_gap after insert or update of position on stream
    deferrable initially deferred for each row execute function guard_position();

create function guard_coverage() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
declare
    covered int8multirange;
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
        if not isempty(passed) then
            select range_agg(c.offsets) into covered from lockstep.coverage c
            where int4range(c.stream_id, c.stream_id, '[]') && int4range(old.stream_id, old.stream_id, '[]')
              and c.offsets && passed;
            if covered is null or not covered @> passed then
                raise exception 'no_gap: coverage % of stream % is taken away below its position', passed, old.stream_id
                    using errcode = '23514', constraint = 'no_gap';
            end if;
        end if;
    end if;
    return null;
end $$;
create constraint trigger no_gap after insert or update or delete on coverage
    deferrable initially deferred for each row execute function guard_coverage();

create function guard_stream() returns trigger language plpgsql as $$
begin
    if (old.epoch, old.incarnation, old.start_offset, old.partition, old.topic, old.topic_id, old.cluster_id, old.pipeline)
        is distinct from
       (new.epoch, new.incarnation, new.start_offset, new.partition, new.topic, new.topic_id, new.cluster_id, new.pipeline) then
        raise exception 'closed_once: stream % is one incarnation for good', old.stream_id
            using errcode = '23514', constraint = 'closed_once';
    end if;
    if old.retired_at is not null then
        raise exception 'closed_once: stream % is retired', old.stream_id
            using errcode = '23514', constraint = 'closed_once';
    end if;
    return new;
end $$;
create trigger closed_once before update on stream for each row execute function guard_stream();

create function guard_batch() returns trigger language plpgsql as $$
begin
    if old.state <> 'planned' then
        raise exception 'closed_once: batch % is %', old.batch_id, old.state
            using errcode = '23514', constraint = 'closed_once';
    end if;
    if new.token < old.token then
        raise exception 'closed_once: the token of batch % goes back from % to %', old.batch_id, old.token, new.token
            using errcode = '23514', constraint = 'closed_once';
    end if;
    return new;
end $$;
create trigger closed_once before update on batch for each row execute function guard_batch();

create function guard_attempt() returns trigger language plpgsql as $$
begin
    if old.closed_at is not null then
        raise exception 'closed_once: attempt % of batch % is %', old.token, old.batch_id, old.state
            using errcode = '23514', constraint = 'closed_once';
    end if;
    return new;
end $$;
create trigger closed_once before update on attempt for each row execute function guard_attempt();

-- A batch closes whole: no claim stays behind, and committed means a commit row per range by its newest attempt.
create function guard_closing() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
    if exists (select 1 from lockstep.claim c where c.batch_id = new.batch_id) then
        raise exception 'no_claim_left: batch % closes and still claims offsets', new.batch_id
            using errcode = '23514', constraint = 'no_claim_left';
    end if;
    if new.state = 'committed' and exists (
        select 1 from lockstep.batch_range r where r.batch_id = new.batch_id and not exists (
            select 1 from lockstep.commit c where c.batch_id = r.batch_id and c.stream_id = r.stream_id)) then
        raise exception 'committed_whole: batch % closes without a commit of each of its ranges', new.batch_id
            using errcode = '23514', constraint = 'committed_whole';
    end if;
    return null;
end $$;
create constraint trigger committed_whole after update of state on batch
    deferrable initially deferred for each row when (new.state <> 'planned') execute function guard_closing();

-- The fence as a constraint: a commit row is accepted only from the newest attempt of a batch that is still planned.
create function guard_commit() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
    if not exists (
        select 1 from lockstep.batch b where b.batch_id = new.batch_id and b.token = new.token and b.state = 'planned') then
        raise exception 'newest_attempt: attempt % of batch % is not its newest', new.token, new.batch_id
            using errcode = '23514', constraint = 'newest_attempt';
    end if;
    return new;
end $$;
create trigger newest_attempt before insert on commit for each row execute function guard_commit();
