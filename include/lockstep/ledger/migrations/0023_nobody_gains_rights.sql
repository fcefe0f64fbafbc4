-- Nobody gains rights by what the ledger's functions do for him.

-- The functions of the owner that work on a table touch only the owner's: partition keys and policies run code.
create function is_own_target(target regclass) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select lockstep.is_by_batch(target) and (
        select pg_has_role(current_user, c.relowner, 'USAGE') and c.relowner <> all (array[
            'lockstep_planner'::regrole, 'lockstep_stager'::regrole, 'lockstep_committer'::regrole,
            'lockstep_partition'::regrole, 'lockstep_reader'::regrole]::oid[])
        from pg_class c where c.oid = target)
$$;

create function guard_target(target regclass) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    if lockstep.is_own_target(target) is not true then
        raise exception 'own_target: % is no table of the owner''s that is partitioned by batch', target
            using errcode = '23514', constraint = 'own_target';
    end if;
end $$;

-- What is attached holds rows and nothing else: whatever its stager hung on it would run as the owner.
create function guard_plain(staged regclass, target regclass) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (
        select from pg_class c where c.oid = staged and c.relkind = 'r' and not c.relrowsecurity and not c.relhasrules
          and not exists (select from pg_trigger t where t.tgrelid = c.oid)
          and not exists (select from pg_policy p where p.polrelid = c.oid)
          and not exists (select from pg_index i where i.indrelid = c.oid)
          and not exists (select from pg_statistic_ext x where x.stxrelid = c.oid)
          and not exists (select from pg_inherits i where c.oid in (i.inhrelid, i.inhparent))
          and not exists (select from pg_constraint k where k.conrelid = c.oid and k.contype <> 'n')
          and not exists (select from pg_attrdef d where d.adrelid = c.oid)
          and not exists (
            select from pg_attribute a join pg_type y on y.oid = a.atttypid
            where a.attrelid = c.oid and a.attnum > 0 and y.typnamespace <> 'pg_catalog'::regnamespace and not exists (
                select from pg_attribute t
                where t.attrelid = target and t.attname = a.attname and t.atttypid = a.atttypid))) then
        raise exception 'own_staging: % is more than a table of rows', staged
            using errcode = '23514', constraint = 'own_staging';
    end if;
end $$;
revoke execute on function guard_target, guard_plain from public;

create or replace function make_partition(target regclass, of_batch bigint, of_token bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    called text := format('%s.%I', (select relnamespace::regnamespace from pg_class where oid = target),
        lockstep.partition_name(target, of_batch, of_token));
begin
    perform lockstep.guard_target(target);
    execute format('create table %s (like %s including defaults including generated including constraints including storage)',
        called, target);
    execute format('alter table %s attach partition %s for values in (%s)', target, called, of_batch);
end $$;

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
    execute format('alter table %s owner to %s', staged, (select relowner::regrole from pg_class where oid = target));
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
    execute format('alter table %s attach partition %s for values in (%s)', target, staged, of_batch);
    execute format('alter table %s drop constraint its_batch', staged);
end $$;

create or replace function drop_replaced_partition(target regclass, part regclass) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    of_batch bigint := (select substring(pg_get_expr(c.relpartbound, c.oid) from $re$^FOR VALUES IN \('?(\d+)'?\)$re$)::bigint
        from pg_class c join pg_inherits i on i.inhrelid = c.oid where c.oid = part and i.inhparent = target);
    is_empty boolean;
begin
    if of_batch is null or not lockstep.is_own_target(target)
            or not exists (select from lockstep.batch b where b.batch_id = of_batch and b.state <> 'planned')
            or exists (select from lockstep.coverage c where c.batch_id = of_batch) then
        return false;
    end if;
    execute format('select not exists (select from %s)', part) into is_empty;
    if not is_empty then
        return false;
    end if;
    execute format('lock table only %s in access exclusive mode', target);
    execute format('lock table only %s in access exclusive mode', part);
    execute format('select not exists (select from %s)', part) into is_empty;
    if is_empty then
        execute format('drop table %s', part);
    end if;
    return is_empty;
end $$;

-- A type without a schema is looked for in pg_temp first, unless the path names pg_temp: a caller's domain of that name
-- would be taken for Postgres' own, and its CHECK would run as the function's owner.
do $$
declare
    each record;
begin
    for each in select oid::regprocedure as signature from pg_catalog.pg_proc where pronamespace = 'lockstep'::regnamespace loop
        execute format('alter function %s set search_path = pg_catalog, pg_temp', each.signature);
    end loop;
end $$;
