-- A suite of expectations is judged by a role without any right: lockstep_judge. A view within the judging transaction gives it
-- the rows of one attempt. The transaction is rolled back, so that the view and its grant are never anybody else's.

-- The rows of the newest attempt, which is staged and not validated, as pg_temp.judged_rows: those in its first staging table, or
-- those that its tasks have copied behind a view.
create function show_to_judge(of_batch bigint, of_token bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    staged text := (
        select format('lockstep_staging.%I', lockstep.staging_name(a.batch_id, a.token, a.nonce))
        from lockstep.batch b join lockstep.attempt a using (batch_id, token)
        where b.batch_id = of_batch and b.token = of_token and b.state = 'planned' and a.state = 'staged');
    rows_table text := (
        select h.rows_table from lockstep.hidden_batch h where h.batch_id = of_batch and exists (
            select from lockstep.landed l where l.batch_id = of_batch and l.token = of_token));
    columns text;
begin
    if staged is null then
        raise exception 'newest_attempt: attempt % of batch % is not its newest, or is not at its judgement', of_token, of_batch
            using errcode = '23514', constraint = 'newest_attempt';
    end if;
    if rows_table is null then
        execute format('create temp view judged_rows as select t.* from %s t
            where t._reason is null and not coalesce(t._deleted, false) and t._task in (
                select m.task from lockstep.manifest m where m.batch_id = %s and m.token = %s)', staged, of_batch, of_token);
    else
        if lockstep.rows_behind(to_regclass(left(rows_table, -5))) is distinct from to_regclass(rows_table) then
            raise exception 'hidden_by_view: no view leaves the hidden rows of % out', rows_table
                using errcode = '23514', constraint = 'hidden_by_view';
        end if;
        columns := (
            select string_agg(format('t.%I', s.attname), ', ' order by s.attnum)
            from pg_attribute s join pg_attribute r on r.attrelid = to_regclass(rows_table) and r.attname = s.attname
            where s.attrelid = to_regclass(staged) and s.attnum > 0 and r.attnum > 0 and not s.attisdropped);
        execute format('create temp view judged_rows as select %s from %s t join lockstep.batch_range r
                on t._stream = r.stream_id and t._offset >= lower(r.offsets) and t._offset < upper(r.offsets)
            where r.batch_id = %s and t._batch = %s', columns, to_regclass(rows_table), of_batch, of_batch);
        perform set_config('enable_seqscan', 'off', true);  -- the key finds the rows
    end if;
    grant select on pg_temp.judged_rows to lockstep_judge;
end $$;
revoke execute on function show_to_judge(bigint, bigint) from public;
grant execute on function show_to_judge(bigint, bigint) to lockstep_stager;
