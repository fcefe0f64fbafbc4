-- Whoever deletes files takes their addresses from the ledger. So each is in the folder of its table, or below the archive's.

-- Whether an address is below a folder as it is written: no part of it leads elsewhere.
create function is_below(address text, folder text) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select coalesce(length(folder) > 0 and starts_with(address, rtrim(folder, '/') || '/')
        and substr(address, length(rtrim(folder, '/')) + 1) !~* '//|/[.]{1,2}(/|$)|/$|%(2[ef]|5c)|[\\[:cntrl:]]', false)
$$;

-- The folder of a table of the lake, by its pointer.
create function lake_folder(of_namespace text, of_name text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select regexp_replace(t.metadata_location, '/metadata/[^/]+$', '') from lockstep_lake.iceberg_tables t
    where (t.catalog_name, t.table_namespace, t.table_name) = ('lockstep', of_namespace, of_name)
      and t.metadata_location ~ '/metadata/[^/]+$'
$$;
grant execute on function is_below(text, text), lake_folder(text, text)
to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_reader;

-- An open attempt's files are in the folder of its number, in the folder of the table that its definition writes there.
create function guard_lake_prefix() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    folder text;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if tg_op = 'UPDATE' then
        if (new.batch_id, new.token, new.place, new.location) = (old.batch_id, old.token, old.place, old.location) then
            return new;
        end if;
    else
        select lockstep.lake_folder(split_part(w.target, '.', 2), split_part(w.target, '.', 3)) into folder
        from lockstep.batch b join lockstep.attempt a using (batch_id, token) join lockstep.definition d using (definition_hash)
        cross join lateral lockstep.lake_tables(d.document) w
        where b.batch_id = new.batch_id and b.token = new.token and b.state = 'planned' and a.closed_at is null
          and w.place = new.place;
        if lockstep.is_below(new.location, folder)
                and new.location = format('%s/data/lockstep/%s.%s', rtrim(folder, '/'), new.batch_id, new.token) then
            return new;
        end if;
    end if;
    raise exception 'own_folder: attempt % of batch % has no folder % of table %', new.token, new.batch_id, new.location, new.place
        using errcode = '23514', constraint = 'own_folder';
end $$;
create trigger own_folder before insert or update on lake_prefix
for each row execute function guard_lake_prefix();

-- Files of metadata are beside those of the table that the preparation is about.
create function guard_lake_prepared() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    folder text := (
        select regexp_replace(x.location, '/data/lockstep/[^/]+$', '') from lockstep.lake_prefix x
        where (x.batch_id, x.token, x.place) = (new.batch_id, new.token, new.place));
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if lockstep.is_below(new.before, folder || '/metadata') then
        return new;
    end if;
    raise exception 'own_folder: % is not a metadata file of the table in %', new.before, folder
        using errcode = '23514', constraint = 'own_folder';
end $$;
create trigger own_folder before insert or update of before, batch_id, token, place on lake_prepared
for each row execute function guard_lake_prepared();

create function guard_upkeep_folder() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    folder text := lockstep.lake_folder(new.namespace, new.name);
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if lockstep.is_below(new.before, folder || '/metadata')
            and new.prefix = format('%s/data/lockstep/upkeep.%s', rtrim(folder, '/'), new.commit_uuid) then
        return new;
    end if;
    raise exception 'own_folder: step % of %.% has no folder %', new.commit_uuid, new.namespace, new.name, new.prefix
        using errcode = '23514', constraint = 'own_folder';
end $$;
create trigger own_folder before insert or update of before, prefix, catalog, namespace, name, commit_uuid on lake_upkeep
for each row execute function guard_upkeep_folder();

-- A file goes with the decision of upkeep about its table, which this transaction writes.
create function guard_lake_gone() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    folder text := lockstep.lake_folder(new.namespace, new.name);
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if not lockstep.is_below(new.path, folder) then
        raise exception 'own_folder: % is not in the folder of %.%', new.path, new.namespace, new.name
            using errcode = '23514', constraint = 'own_folder';
    end if;
    if not exists (
        select from lockstep.decision d where d.decision_id = new.decision_id and d.kind = 'upkeep'
          and lockstep.is_of_this_transaction(d.xmin)
          and d.detail ->> 'table' = concat_ws('.', new.catalog, new.namespace, new.name)) then
        raise exception 'gone_by_decision: no decision of this transaction takes % out of %.%', new.path, new.namespace, new.name
            using errcode = '23514', constraint = 'gone_by_decision';
    end if;
    return new;
end $$;
create trigger own_folder before insert or update of path, catalog, namespace, name, decision_id on lake_gone
for each row execute function guard_lake_gone();

-- Not valid: what older versions wrote is looked at where it is read and removed.
alter table archived add constraint archived_below_its_place check (
    path ~ '^[^/]+(/[^/]+)+$' and path !~ '(^|/)[.]{1,2}(/|$)|[\\[:cntrl:]]') not valid;
