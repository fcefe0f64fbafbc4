-- Tables that are partitioned by batch: what an attempt has staged becomes the batch's partition as it stands, without a copy.

-- Whether each batch has a partition of the table to itself.
create function is_by_batch(target regclass) returns boolean
language sql stable set search_path = pg_catalog as $$
    select exists (
        select from pg_partitioned_table p join pg_attribute a on a.attrelid = p.partrelid and a.attname = '_batch'
        where p.partrelid = target and p.partstrat = 'l' and p.partnatts = 1 and p.partattrs[0] = a.attnum)
$$;

-- What the batch's partition of a table is called. Only the newest attempt, validated, of a planned batch has one.
create function partition_name(target regclass, of_batch bigint, of_token bigint) returns name
language plpgsql stable set search_path = pg_catalog as $$
begin
    if not exists (
        select 1 from lockstep.batch b join lockstep.attempt a using (batch_id, token)
        where b.batch_id = of_batch and b.token = of_token and b.state = 'planned' and a.state = 'validated') then
        raise exception 'newest_attempt: attempt % of batch % is not its newest, or not validated', of_token, of_batch
            using errcode = '23514', constraint = 'newest_attempt';
    end if;
    return (select left(relname, 62 - length(of_batch::text)) || '_' || of_batch from pg_class where oid = target);
end $$;

-- An empty partition for the batch, to insert into.
create function make_partition(target regclass, of_batch bigint, of_token bigint) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
    execute format('create table %s.%I partition of %s for values in (%s)',
        (select relnamespace::regnamespace from pg_class where oid = target),
        lockstep.partition_name(target, of_batch, of_token), target, of_batch);
end $$;

-- The staged rows of the tasks that won, without the rejects, as the batch's partition. It is its stager's no longer; what
-- the target does not have its columns lose, and their bytes stay in the rows.
create function attach_staged(target regclass, staged regclass, of_batch bigint, of_token bigint) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare
    called name := lockstep.partition_name(target, of_batch, of_token);
    changes text;
    staged_rows bigint;
begin
    if (select relnamespace <> 'lockstep_staging'::regnamespace
            or not starts_with(relname || '_', format('attempt_%s_%s_', of_batch, of_token))
        from pg_class where oid = staged) then
        raise exception 'own_staging: attempt % of batch % has not staged %', of_token, of_batch, staged
            using errcode = '23514', constraint = 'own_staging';
    end if;
    execute format('alter table %s owner to %s', staged, (select relowner::regrole from pg_class where oid = target));
    execute format('select count(*) from %s', staged) into staged_rows;
    if staged_rows <> (select coalesce(sum(r.rows), 0) from lockstep.result r where r.batch_id = of_batch and r.token = of_token) then
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

revoke execute on function partition_name, make_partition, attach_staged from public;
grant execute on function make_partition, attach_staged to lockstep_committer;
