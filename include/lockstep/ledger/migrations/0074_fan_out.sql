-- One read into tables of the lake and of the database: each record gives one row to each of them, or nothing moves.

-- The sum of the rows' offsets, where each record gives one row to each target. Null: a record may give any number of rows.
alter table target_rows add column offsets numeric;
alter table target_rows add constraint one_row_a_record check (offsets is null or records = rows);

-- Files of tasks are counted by the store, and staged rows by the database. What is committed is the same in all tables.
create function guard_fan_out() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    with attempts as (select distinct batch_id, token from added),
    told as (select p.* from attempts join lockstep.target_rows p using (batch_id, token)),
    held as (
        select f.batch_id, f.token, f.place, s.key::int as stream_id, sum((s.value ->> 0)::bigint) as rows,
            sum((s.value ->> 1)::numeric) as offsets
        from attempts join lockstep.lake_file f using (batch_id, token) cross join lateral jsonb_each(f.streams) s
        where f.digests is not null and exists (select from told t where (t.batch_id, t.token) = (f.batch_id, f.token))
        group by 1, 2, 3, 4),
    into_lake as (
        select t.* from told t where t.target ~ '^lockstep[.][^.]+[.][^.]+$'
          and exists (select from held h where (h.batch_id, h.token) = (t.batch_id, t.token)))
    select batch_id, stream_id into wrong from (
        select batch_id, stream_id from into_lake t full join held h using (batch_id, token, place, stream_id)
        where t.offsets is null or (t.rows, t.offsets) <> (coalesce(h.rows, 0), coalesce(h.offsets, 0))
        union all
        select batch_id, stream_id from told where offsets is not null
        group by batch_id, token, stream_id having count(distinct (rows, offsets)) > 1) w
    limit 1;
    if found then
        raise exception 'tables_agree: the tables of batch % do not have the same records of stream %',
            wrong.batch_id, wrong.stream_id using errcode = '23514', constraint = 'tables_agree';
    end if;
    return null;
end $$;
create trigger tables_agree after insert on commit referencing new table as added
    for each statement execute function guard_fan_out();

revoke execute on function guard_fan_out from public;
