-- One definition per attempt, and one version of the code per ledger.

-- A verdict and a commit name the definition that they were made with, and it is their attempt's.
alter table attempt add constraint one_definition unique (batch_id, token, definition_hash);

alter table verdict add column definition_hash text;
alter table verdict add constraint verdict_names_its_definition check (definition_hash is not null) not valid;
alter table verdict add constraint judged_as_staged
    foreign key (batch_id, token, definition_hash) references attempt (batch_id, token, definition_hash);

alter table commit add column definition_hash text;
alter table commit add constraint commit_names_its_definition check (definition_hash is not null) not valid;
alter table commit add constraint committed_as_staged
    foreign key (batch_id, token, definition_hash) references attempt (batch_id, token, definition_hash);

-- Each session says which version of the ledger its code is made for; code from before this migration says nothing.
create function guard_version() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    found int := (select max(m.version) from lockstep.migration m);
    made_for text := coalesce(nullif(current_setting('lockstep.ledger_version', true), ''), 'a version below 19');
begin
    if made_for <> found::text then
        raise exception 'one_version: the ledger is at version %, this code is made for %: %', found, made_for,
            case when made_for ~ '^\d+$' and made_for::numeric > found then 'run lockstep migrate'
                 else 'update lockstep on this machine' end
            using errcode = '23514', constraint = 'one_version';
    end if;
    return null;
end $$;
create trigger one_version before insert on batch for each statement execute function guard_version();
create trigger one_version before insert on request for each statement execute function guard_version();
create trigger one_version before insert on decision for each statement execute function guard_version();
create trigger one_version before insert on attempt for each statement execute function guard_version();
create trigger one_version before insert on verdict for each statement execute function guard_version();
create trigger one_version before insert on commit for each statement execute function guard_version();
create trigger one_version before insert on coverage for each statement execute function guard_version();

grant select on migration to lockstep_partition;

-- An empty partition for the batch. It is made beside the table and attached: readers of the table are not waited for.
create or replace function make_partition(target regclass, of_batch bigint, of_token bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    called text := format('%s.%I', (select relnamespace::regnamespace from pg_class where oid = target),
        lockstep.partition_name(target, of_batch, of_token));
begin
    execute format('create table %s (like %s including defaults including generated including constraints including storage)',
        called, target);
    execute format('alter table %s attach partition %s for values in (%s)', target, called, of_batch);
end $$;

-- The partition of a batch that owns no offsets any more: it is empty, and it goes. Whoever reads the table is waited for
-- as long as the caller's lock_timeout says; a partition that holds a row, or several batches' rows, stays.
create function drop_replaced_partition(target regclass, part regclass) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    of_batch bigint := (select substring(pg_get_expr(c.relpartbound, c.oid) from $re$^FOR VALUES IN \('?(\d+)'?\)$re$)::bigint
        from pg_class c join pg_inherits i on i.inhrelid = c.oid where c.oid = part and i.inhparent = target);
    is_empty boolean;
begin
    if of_batch is null or not lockstep.is_by_batch(target)
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

revoke execute on function drop_replaced_partition from public;
grant execute on function drop_replaced_partition to lockstep_committer;

-- Executors hold the credentials of tasks: a task takes away coverage and claims, and moves a position, only where its own
-- batch has a claim, while the newest attempt of that batch is open and commits stream by stream.
create function guard_task() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    touched int8range;
    is_own boolean;
begin
    if tg_table_name = 'stream' then
        touched := int8range(old.position, new.position);
    else
        touched := old.offsets;
    end if;
    select exists (
        select from lockstep.claim k join lockstep.batch b using (batch_id)
        join lockstep.attempt a on a.batch_id = b.batch_id and a.token = b.token
        where k.stream_id = old.stream_id and b.state = 'planned' and a.state = 'open' and a.unit = 'stream'
          and case tg_table_name when 'coverage' then k.expects <> 'nothing' and k.offsets && touched
              else k.offsets = touched end) into is_own;
    if not is_own then
        raise exception 'own_range: a task may not change % of stream %: no open attempt that commits by stream claims it',
            tg_table_name, old.stream_id using errcode = '23514', constraint = 'own_range';
    end if;
    if tg_op = 'DELETE' then
        return old;
    end if;
    return new;
end $$;
create trigger own_range before delete on coverage for each row when (current_user = 'lockstep_partition')
    execute function guard_task();
create trigger own_range before delete on claim for each row when (current_user = 'lockstep_partition')
    execute function guard_task();
create trigger own_range before update of position on stream for each row when (current_user = 'lockstep_partition')
    execute function guard_task();
