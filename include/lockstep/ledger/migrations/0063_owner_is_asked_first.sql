-- A pipeline that owns a table alone was looked at when it became the owner. Only without an owner a commit reads the table's
-- contributions: a condition beside the other one is asked first, so it stands in a case.
create or replace function guard_windows_commit() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    stray record;
begin
    select w.target, d.pipeline, o.other into stray
    from (select distinct batch_id, token from added) c
    join lockstep.attempt a using (batch_id, token) join lockstep.definition d using (definition_hash)
    cross join lateral lockstep.written_tables(d.document) w
    cross join lateral (select case when w.store = '' and not exists (
        select from lockstep.target_owner o
        where o.store = '' and o.target = w.target and o.pipeline = d.pipeline and o.shared_with = '{}')
        then lockstep.windows_of_another(w.target, d.pipeline) end as other) o
    where o.other is not null limit 1;
    if found then
        raise exception 'windows_of_one: % has windows of %, and % would write it', stray.target, stray.other, stray.pipeline
            using errcode = '23514', constraint = 'windows_of_one';
    end if;
    return null;
end $$;
