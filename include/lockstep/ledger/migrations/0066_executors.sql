-- Tasks on executors may have a login of their own: it adds staged rows, says what was read, and reads nothing.

grant usage on schema lockstep to lockstep_executor;
grant insert on source_manifest to lockstep_executor;

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
    execute format('revoke all on %s from lockstep_executor', staged);  -- what is published is no executor's to write
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

-- What a driver says to the task that has submitted it. On a cluster the two share no file.
create table answer (
    task_instance_id text not null,
    try_number int not null,
    outcome jsonb not null,
    at timestamptz not null default clock_timestamp(),
    primary key (task_instance_id, try_number)
);
grant select on answer to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
grant insert on answer to lockstep_stager;
