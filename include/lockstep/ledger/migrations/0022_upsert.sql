-- Staged rows of one of several targets are compared with what was staged for that target, and deletions are taken away
-- when no record can come back behind them.

create or replace function attach_staged(target regclass, staged regclass, of_batch bigint, of_token bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    called name := lockstep.partition_name(target, of_batch, of_token);
    changes text;
    staged_rows bigint;
    won_rows bigint;
begin
    if (select relnamespace <> 'lockstep_staging'::regnamespace
            or not starts_with(relname || '_', format('attempt_%s_%s_', of_batch, of_token))
        from pg_class where oid = staged) then
        raise exception 'own_staging: attempt % of batch % has not staged %', of_token, of_batch, staged
            using errcode = '23514', constraint = 'own_staging';
    end if;
    execute format('alter table %s owner to %s', staged, (select relowner::regrole from pg_class where oid = target));
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

create index tombstone_of_stream on tombstone (stream_id, "offset");
grant delete on tombstone to lockstep_planner;

-- A deletion is not forgotten while an unfinished batch holds older records that it alone keeps dead. A replay of the
-- deletion itself takes it out and puts it back.
create function guard_tombstone() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if exists (
        select 1 from lockstep.claim k
        where k.stream_id = old.stream_id and lower(k.offsets) <= old."offset" and upper(k.offsets) > old."offset") then
        return old;
    end if;
    if exists (
        select 1 from lockstep.claim k join lockstep.stream s using (stream_id)
        join lockstep.stream its on its.stream_id = old.stream_id and its.pipeline = s.pipeline
        where (k.stream_id = old.stream_id and upper(k.offsets) <= old."offset") or s.epoch < its.epoch) then
        raise exception 'dead_stay_dead: a batch under way reads records older than the deletion at offset % of stream %',
            old."offset", old.stream_id using errcode = '23514', constraint = 'dead_stay_dead';
    end if;
    return old;
end $$;
create trigger dead_stay_dead before delete on tombstone for each row execute function guard_tombstone();
