-- A table with windows of one pipeline is written by no other one, also when the first is forgotten and owns nothing.

-- A pipeline other than this one whose records count in a table's windows, or are late there. Null for a table without windows.
create function windows_of_another(of_target text, of_pipeline text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select s.pipeline from (
        select c.stream_id from lockstep.contribution c where c.target = of_target
        union all select l.stream_id from lockstep.late l where l.target = of_target) k
    join lockstep.stream s using (stream_id)
    where s.pipeline <> of_pipeline and exists (select from lockstep.window_state w where w.target = of_target) limit 1
$$;

-- Windows are shown by the event time of the pipeline whose records count in them. So no other one becomes the table's owner.
create function guard_windows_owner() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    other text := case when new.store = '' then lockstep.windows_of_another(new.target, new.pipeline) end;
begin
    if other is not null then
        raise exception 'windows_of_one: % has windows of %, and % would own it', new.target, other, new.pipeline
            using errcode = '23514', constraint = 'windows_of_one';
    end if;
    return new;
end $$;
create trigger windows_of_one before insert on target_owner for each row execute function guard_windows_owner();

-- Nor does another one commit there. Who owns the table alone was looked at when it became the owner.
create function guard_windows_commit() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    stray record;
begin
    select w.target, d.pipeline, lockstep.windows_of_another(w.target, d.pipeline) as other into stray
    from (select distinct batch_id, token from added) c
    join lockstep.attempt a using (batch_id, token) join lockstep.definition d using (definition_hash)
    cross join lateral lockstep.written_tables(d.document) w
    where w.store = '' and not exists (
        select from lockstep.target_owner o
        where o.store = '' and o.target = w.target and o.pipeline = d.pipeline and o.shared_with = '{}')
      and lockstep.windows_of_another(w.target, d.pipeline) is not null limit 1;
    if found then
        raise exception 'windows_of_one: % has windows of %, and % would write it', stray.target, stray.other, stray.pipeline
            using errcode = '23514', constraint = 'windows_of_one';
    end if;
    return null;
end $$;
create trigger windows_of_one after insert on commit referencing new table as added
    for each statement execute function guard_windows_commit();
