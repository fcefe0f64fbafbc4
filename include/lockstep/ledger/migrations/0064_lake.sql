-- Tables of the lake. Iceberg's JDBC catalog keeps a table's pointer in a row, and here that row lies beside the offsets.

-- Layout V1 of that catalog, to the letter: Spark, Trino and others read and write it.
create table lockstep_lake.iceberg_tables (
    catalog_name varchar(255) not null,
    table_namespace varchar(255) not null,
    table_name varchar(255) not null,
    metadata_location varchar(1000),
    previous_metadata_location varchar(1000),
    iceberg_type varchar(5),
    primary key (catalog_name, table_namespace, table_name)
);
create table lockstep_lake.iceberg_namespace_properties (
    catalog_name varchar(255) not null,
    namespace varchar(255) not null,
    property_key varchar(255) not null,
    property_value varchar(1000),
    primary key (catalog_name, namespace, property_key)
);

-- Where an attempt writes its files for one target. Nothing else is below it, so what a dead attempt has left is found there.
create table lake_prefix (
    batch_id bigint not null,
    token bigint not null,
    place int not null check (place >= 0),  -- in the definition's order of targets
    location text not null,
    swept_at timestamptz,
    primary key (batch_id, token, place),
    foreign key (batch_id, token) references attempt
);

-- A file counts when it was closed, read back from the store and has its row.
create table lake_file (
    batch_id bigint not null,
    token bigint not null,
    place int not null,
    path text not null,
    rows bigint not null check (rows > 0),
    bytes bigint not null check (bytes > 0),
    streams jsonb not null,  -- {"17": [rows, sum of offsets, sum of their squares, first, last]}, as read back
    primary key (batch_id, token, place, path),
    foreign key (batch_id, token, place) references lake_prefix,
    constraint one_row_a_lake_file unique (path)
);

-- A preparation: its files of metadata have its id in their names. Written before the first of them is.
create table lake_prepared (
    commit_uuid uuid primary key,
    batch_id bigint not null,
    token bigint not null,
    place int not null,
    before text not null,
    at timestamptz not null default clock_timestamp(),
    swept_at timestamptz,
    foreign key (batch_id, token, place) references lake_prefix
);

-- What a commit did to a table of the lake. Lineage stays here when the snapshot expires.
create table lake_commit (
    batch_id bigint not null,
    place int not null,
    token bigint not null,
    catalog text not null,
    namespace text not null,
    name text not null,
    table_uuid uuid not null,
    before text not null,
    after text not null,
    snapshot_id bigint not null,
    added_files int not null,
    removed_files int not null,
    rewritten_files int not null,
    at timestamptz not null default clock_timestamp(),
    primary key (batch_id, place),
    foreign key (batch_id, token, place) references lake_prefix
);

-- Every move of a pointer, by whomever. No role inserts here: the trigger below does.
create table lake_pointer (
    id bigint generated always as identity primary key,
    catalog text not null,
    namespace text not null,
    name text not null,
    before text,
    after text,
    at timestamptz not null default clock_timestamp(),
    login name not null default session_user,
    role text not null,
    application text,
    xid xid8 not null default pg_current_xact_id(),
    constraint one_commit_moves_a_table_once unique (catalog, namespace, name, xid)
);

create function tell_pointer() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    was text := case when tg_op <> 'INSERT' then old.metadata_location end;
    becomes text := case when tg_op <> 'DELETE' then new.metadata_location end;
    found lockstep_lake.iceberg_tables := case when tg_op = 'DELETE' then old else new end;
begin
    if was is distinct from becomes then
        insert into lockstep.lake_pointer (catalog, namespace, name, before, after, role, application)
        values (found.catalog_name, found.table_namespace, found.table_name, was, becomes,
            pg_catalog.current_setting('role'), pg_catalog.current_setting('application_name'));
    end if;
    return null;
end $$;
create trigger pointer_told after insert or update or delete on lockstep_lake.iceberg_tables
    for each row execute function tell_pointer();

-- The tables of the lake that a definition writes, by place.
create function lake_tables(document jsonb) returns table (place int, target text)
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select (n - 1)::int, t #>> '{}' from jsonb_path_query(document, '$.target[*].table') with ordinality as each (t, n)
    where t #>> '{}' ~ '^lockstep[.][^.]+[.][^.]+$'
$$;

-- No offsets without their rows: a commit moves the pointer of each of its lake tables, in this very transaction.
create function guard_lake_offsets() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    select c.batch_id, w.target into wrong
    from (select distinct batch_id, token from added) c
    join lockstep.attempt a using (batch_id, token) join lockstep.definition d using (definition_hash)
    cross join lateral lockstep.lake_tables(d.document) w
    where not exists (
        select from lockstep.lake_commit m
        join lockstep.lake_pointer p using (catalog, namespace, name, before, after)
        where m.batch_id = c.batch_id and m.token = c.token and m.place = w.place
          and w.target = concat_ws('.', m.catalog, m.namespace, m.name) and p.xid = pg_current_xact_id())
    limit 1;
    if found then
        raise exception 'pointer_with_offsets: batch % would commit offsets, and % has not moved with them',
            wrong.batch_id, wrong.target using errcode = '23514', constraint = 'pointer_with_offsets';
    end if;
    return null;
end $$;
create trigger pointer_with_offsets after insert on commit referencing new table as added
    for each statement execute function guard_lake_offsets();

-- No rows without their offsets: what the committer moves is what a commit of this transaction says.
create function guard_lake_pointer() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (
        select from lockstep.lake_commit m join lockstep.commit c using (batch_id, token)
        where (m.catalog, m.namespace, m.name) = (new.catalog, new.namespace, new.name)
          and m.before = new.before and m.after = new.after) then
        raise exception 'offsets_with_pointer: %.%.% moves without offsets', new.catalog, new.namespace, new.name
            using errcode = '23514', constraint = 'offsets_with_pointer';
    end if;
    return null;
end $$;
create constraint trigger offsets_with_pointer after insert on lake_pointer deferrable initially deferred
    for each row when (new.role = 'lockstep_committer') execute function guard_lake_pointer();

-- A lake table has an owner as others have, and the catalog's name in front.
alter table target_owner drop constraint target_is_qualified;
alter table target_owner add constraint target_is_qualified check (
    target ~ '^(lockstep\.)?[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$');

-- The staged table is the ledger's owner's until it lies beside its target: nobody else may create among the staged rows. It is
-- the target's owner's before it is attached: whatever then runs for its indexes runs as that one.
-- Beside it a lake table may be filled, whose name is no relation's: it is not looked for.
create or replace function attach_staged(target regclass, staged regclass, of_batch bigint, of_token bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    called name := lockstep.partition_name(target, of_batch, of_token);
    changes text;
    staged_rows bigint;
    won_rows bigint;
begin
    perform lockstep.guard_target(target);
    if (select relnamespace <> 'lockstep_staging'::regnamespace
            or not starts_with(relname || '_', format('attempt_%s_%s_', of_batch, of_token))
        from pg_class where oid = staged) then
        raise exception 'own_staging: attempt % of batch % has not staged %', of_token, of_batch, staged
            using errcode = '23514', constraint = 'own_staging';
    end if;
    execute format('alter table %s owner to %I', staged, current_user);
    perform lockstep.guard_plain(staged, target);  -- its stager can change nothing of it any more
    execute format('select count(*) from %s', staged) into staged_rows;
    -- one target has no row in target_rows, and all rows of the result
    select coalesce(
        (select sum(p.rows) from lockstep.target_rows p
         where p.batch_id = of_batch and p.token = of_token and case when p.target !~ '[.].*[.]' then to_regclass(p.target) end = attach_staged.target),
        (select sum(r.rows) from lockstep.result r where r.batch_id = of_batch and r.token = of_token), 0) into won_rows;
    if staged_rows <> won_rows then
        execute format('delete from %s t where t._reason is not null or not exists (
            select 1 from lockstep.manifest m where m.batch_id = %s and m.token = %s and m.task = t._task)',
            staged, of_batch, of_token);
    end if;
    select string_agg(change, ', ') into changes from (
        select format('drop column %I', s.attname) as change from pg_attribute s
        where s.attrelid = staged and s.attnum > 0 and not s.attisdropped and s.attname not in (
            select t.attname from pg_attribute t where t.attrelid = target and t.attnum > 0 and not t.attisdropped)
        union all
        select format('alter column %I set not null', t.attname) from pg_attribute t
        where t.attrelid = target and t.attnum > 0 and not t.attisdropped and t.attnotnull and t.attname <> '_batch') c;
    execute format('alter table %s %s, add column _batch bigint not null default %s, add constraint its_batch check (_batch = %s)',
        staged, changes, of_batch, of_batch);
    execute format('alter table %s set schema %s', staged, (select relnamespace::regnamespace from pg_class where oid = target));
    execute format('alter table %s rename to %I', staged, called);
    execute format('alter table %s owner to %s', staged, (select relowner::regrole from pg_class where oid = target));
    execute format('alter table %s attach partition %s for values in (%s)', target, staged, of_batch);
    execute format('alter table %s drop constraint its_batch', staged);
end $$;

grant select on all tables in schema lockstep_lake to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_reader;
grant update (metadata_location, previous_metadata_location) on lockstep_lake.iceberg_tables to lockstep_committer;
grant select on lake_prefix, lake_file, lake_prepared, lake_commit, lake_pointer
    to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
grant insert on lake_prefix, lake_file, lake_prepared, lake_commit to lockstep_committer;
grant update (swept_at) on lake_prefix, lake_prepared to lockstep_committer;
revoke execute on function tell_pointer, guard_lake_offsets, guard_lake_pointer from public;
