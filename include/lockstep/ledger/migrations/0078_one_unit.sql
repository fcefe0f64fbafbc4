-- A batch of which tasks have committed ranges is finished range by range: an attempt at the whole batch could never commit.

create function guard_unit() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if exists (select from lockstep.commit c where c.batch_id = new.batch_id) then
        raise exception 'one_unit: batch % is committed range by range, and attempt % would commit it as a whole',
            new.batch_id, new.token using errcode = '23514', constraint = 'one_unit';
    end if;
    return new;
end $$;
create trigger one_unit before insert or update of unit on attempt
    for each row when (new.unit = 'batch') execute function guard_unit();

-- Which task of its run an attempt was made by: in the DAGs of one task and of a fleet it is not `stage`.
alter table attempt
    add task_id text,
    add map_index int,  -- of a mapped task
    add constraint index_of_a_task check (map_index is null or (map_index >= 0 and task_id is not null));
