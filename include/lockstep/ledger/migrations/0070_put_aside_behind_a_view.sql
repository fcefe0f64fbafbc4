-- Expectations judge rows that are hidden. Of a record that is quarantined no row stays behind the view. A range is copied
-- in pieces where a batch has fewer ranges than there are tasks.

-- The offsets that a task has copied. No offset is copied twice by one attempt.
alter table landed add offsets int8range;
update landed l set offsets = r.offsets from batch_range r where (r.batch_id, r.stream_id) = (l.batch_id, l.stream_id);
alter table landed alter offsets set not null, drop constraint landed_once;
alter table landed add constraint landed_once exclude using gist (
    int8range(batch_id, batch_id, '[]') with &&, int8range(token, token, '[]') with &&,
    int4range(stream_id, stream_id, '[]') with &&, offsets with &&);
create index landed_of_attempt on landed (batch_id, token, stream_id);

-- The fence of a task that copies: the batch is this attempt's until the transaction ends, its rows are hidden or a part, and the
-- offsets are its. Of a range without rows there is nothing to hide.
create or replace function guard_landing() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    newest bigint;
    found text;
begin
    select b.token, b.state into newest, found from lockstep.batch b where b.batch_id = new.batch_id for share;
    if newest is distinct from new.token or found is distinct from 'planned' then
        raise exception 'newest_attempt: attempt % of batch % is not its newest', new.token, new.batch_id
            using errcode = '23514', constraint = 'newest_attempt';
    end if;
    if new.rows <> 0 and not exists (select from lockstep.hidden_batch h where h.batch_id = new.batch_id) and not exists (
            select from lockstep.part p where (p.batch_id, p.token, p.stream_id) = (new.batch_id, new.token, new.stream_id)) then
        raise exception 'landed_is_hidden: rows of batch % would be seen before its commit', new.batch_id
            using errcode = '23514', constraint = 'landed_is_hidden';
    end if;
    if isempty(new.offsets) or not exists (
            select from lockstep.batch_range r
            where (r.batch_id, r.stream_id) = (new.batch_id, new.stream_id) and r.offsets @> new.offsets) then
        raise exception 'landed_within: batch % reads no offsets % of stream %', new.batch_id, new.offsets, new.stream_id
            using errcode = '23514', constraint = 'landed_within';
    end if;
    return new;
end $$;

-- An attempt whose tasks have copied has copied all offsets of each of its ranges, and as many rows as were validated.
create or replace function guard_landed() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    missing record;
begin
    select a.batch_id, a.stream_id into missing
    from added a join lockstep.result u using (batch_id, token, stream_id) join lockstep.batch_range r using (batch_id, stream_id)
    where exists (select from lockstep.landed l where l.batch_id = a.batch_id and l.token = a.token)
      and (
        select (pg_catalog.range_agg(l.offsets), pg_catalog.sum(l.rows)) from lockstep.landed l
        where (l.batch_id, l.token, l.stream_id) = (a.batch_id, a.token, a.stream_id))
        is distinct from (int8multirange(r.offsets), u.rows::numeric) limit 1;
    if found then
        raise exception 'landed_whole: the rows of stream % of batch % are not those that its tasks copied',
            missing.stream_id, missing.batch_id using errcode = '23514', constraint = 'landed_whole';
    end if;
    return null;
end $$;

-- What a task has copied of a range only shrinks, by the newest attempt and while the batch is hidden.
create function guard_landed_rows() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    newest bigint;
    found text;
begin
    select b.token, b.state into newest, found from lockstep.batch b where b.batch_id = old.batch_id for share;
    if newest is distinct from old.token or found is distinct from 'planned' then
        raise exception 'newest_attempt: attempt % of batch % is not its newest', old.token, old.batch_id
            using errcode = '23514', constraint = 'newest_attempt';
    end if;
    if (new.batch_id, new.token, new.stream_id, new.offsets, new.shape_id)
                is distinct from (old.batch_id, old.token, old.stream_id, old.offsets, old.shape_id)
            or new.rows > old.rows
            or not exists (select from lockstep.hidden_batch h where h.batch_id = old.batch_id) then
        raise exception 'landed_shrinks: the range of stream % was copied with % rows by attempt % of batch %',
            old.stream_id, old.rows, old.token, old.batch_id using errcode = '23514', constraint = 'landed_shrinks';
    end if;
    return new;
end $$;
create trigger landed_shrinks before update on landed for each row execute function guard_landed_rows();

revoke execute on function guard_landed_rows from public;
grant update (rows, rows_digest) on landed to lockstep_partition;
