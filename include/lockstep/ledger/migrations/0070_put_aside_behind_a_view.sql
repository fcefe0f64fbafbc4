-- Expectations judge rows that are hidden. Of a record that is quarantined no row stays behind the view.

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
    if (new.batch_id, new.token, new.stream_id, new.shape_id) is distinct from (old.batch_id, old.token, old.stream_id, old.shape_id)
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
