-- Targets belong to lockstep_targets, which owns nothing of the ledger: target.sql runs with its rights.

-- Everything outside the ledger that lockstep_owner owns was made by a target.sql. What lies in a schema where
-- lockstep_targets may not create stays, and `lockstep migrate NAME` says what is missing.
do $$
declare
    each record;
begin
    for each in
        select format('table %s', c.oid::regclass) as what from pg_catalog.pg_class c
        where c.relowner = 'lockstep_owner'::regrole and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
          and c.relnamespace <> all (array['lockstep'::regnamespace, 'lockstep_staging'::regnamespace, 'pg_toast'::regnamespace])
          and not exists (  -- a sequence follows its table
            select from pg_catalog.pg_depend d
            where c.relkind = 'S' and d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype in ('a', 'i'))
          and has_schema_privilege('lockstep_targets', c.relnamespace, 'CREATE')
        union all
        select format('routine %s', p.oid::regprocedure) from pg_catalog.pg_proc p
        where p.proowner = 'lockstep_owner'::regrole
          and p.pronamespace <> all (array['lockstep'::regnamespace, 'lockstep_staging'::regnamespace])
          and has_schema_privilege('lockstep_targets', p.pronamespace, 'CREATE')
        union all
        select format('type %s', y.oid::regtype) from pg_catalog.pg_type y
        where y.typowner = 'lockstep_owner'::regrole and y.typtype in ('d', 'e', 'r')
          and y.typnamespace <> all (array['lockstep'::regnamespace, 'lockstep_staging'::regnamespace])
          and has_schema_privilege('lockstep_targets', y.typnamespace, 'CREATE')
    loop
        execute format('alter %s owner to lockstep_targets', each.what);
    end loop;
end $$;

create or replace function make_partition(target regclass, of_batch bigint, of_token bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    called text := format('%s.%I', (select relnamespace::regnamespace from pg_class where oid = target),
        lockstep.partition_name(target, of_batch, of_token));
begin
    perform lockstep.guard_target(target);
    execute format('create table %s (like %s including defaults including generated including constraints including storage)',
        called, target);
    execute format('alter table %s owner to %s', called, (select relowner::regrole from pg_class where oid = target));
    execute format('alter table %s attach partition %s for values in (%s)', target, called, of_batch);
end $$;

-- The staged table is the ledger's owner's until it lies beside its target: nobody else may create among the staged rows.
-- It is the target's owner's before it is attached: whatever then runs for its indexes runs as that one.
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
         where p.batch_id = of_batch and p.token = of_token and to_regclass(p.target) = attach_staged.target),
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

-- A policy that binds even the owner would run as the ledger's.
alter function drop_replaced_partition set row_security = off;
