-- Parts that attach: a task makes a table of its own for a range, and the commit makes it a partition of the batch's.

-- The tables that tasks have made, each in the transaction of its rows. Their counts and digests are in `landed`.
create table part (
    batch_id bigint not null,
    token bigint not null,
    stream_id int not null,
    target text not null,
    relation oid not null,
    constraint part_once primary key (batch_id, token, stream_id),
    foreign key (batch_id, token) references attempt,
    foreign key (batch_id, stream_id) references batch_range
);

-- A table for the rows of one range, with the columns and checks of its target. Only the newest attempt's task gets one, for
-- its pipeline's table, and only this transaction may fill it.
create function make_part(target regclass, of_batch bigint, of_token bigint, of_stream int) returns regclass
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    called text := (
        select lockstep.staging_name(a.batch_id, a.token, a.nonce) || '_part_' || r.stream_id
        from lockstep.batch b join lockstep.attempt a using (batch_id, token) join lockstep.batch_range r using (batch_id)
        where b.batch_id = of_batch and b.token = of_token and b.state = 'planned' and r.stream_id = of_stream);
    made regclass;
begin
    perform lockstep.guard_target(target);
    if called is null then
        raise exception 'newest_attempt: attempt % of batch % is not its newest, or has no range of stream %', of_token, of_batch, of_stream
            using errcode = '23514', constraint = 'newest_attempt';
    end if;
    if not exists (
        select from lockstep.batch b join lockstep.target_owner o using (pipeline)
        where b.batch_id = of_batch and o.store = ''
          and case when o.target !~ '[.].*[.]' then to_regclass(o.target) end = make_part.target) then
        raise exception 'own_target: % is no target of the pipeline of batch %', target, of_batch
            using errcode = '23514', constraint = 'own_target';
    end if;
    execute format('create table lockstep_staging.%I (like %s including defaults including constraints including storage,
        constraint its_part check (_batch = bigint %L and _stream = int %L))', called, target, of_batch, of_stream);
    made := to_regclass(format('lockstep_staging.%I', called));
    execute format('grant select, insert on %s to lockstep_partition', made);
    insert into lockstep.part (batch_id, token, stream_id, target, relation)
    values (of_batch, of_token, of_stream, target::text, made);
    return made;
end $$;

-- The keys of a target, for a table that is filled. No key may run an author's code here: it would run as the ledger's owner.
create function add_keys(filled regclass, target regclass) returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp as $$
declare
    begins text;
    key record;
begin
    for key in
        select x.relname as name, t.relname as of_table, t.relnamespace::regnamespace as beside, i.indisunique as is_unique,
            pg_get_indexdef(i.indexrelid) as definition, pg_get_constraintdef(k.oid) as as_constraint,
            i.indexprs is null and i.indpred is null as is_plain
        from pg_index i join pg_class x on x.oid = i.indexrelid join pg_class t on t.oid = i.indrelid
        left join pg_constraint k on k.conindid = i.indexrelid and k.conrelid = i.indrelid and k.contype in ('p', 'u')
        where i.indrelid = target order by i.indexrelid
    loop
        begins := format('CREATE %sINDEX %I ON ONLY %s.%I ', case when key.is_unique then 'UNIQUE ' else '' end,
            key.name, key.beside, key.of_table);
        if not key.is_plain or key.as_constraint is null and not starts_with(key.definition, begins) then
            raise exception 'plain_keys: index % of % has an expression or a condition', key.name, target
                using errcode = '23514', constraint = 'plain_keys';
        end if;
        execute case when key.as_constraint is not null then format('alter table %s add %s', filled, key.as_constraint)
            else format('create %s index on %s %s', case when key.is_unique then 'unique' else '' end, filled,
                substr(key.definition, length(begins) + 1)) end;
    end loop;
end $$;

-- The end of a part's filling. Its keys are built of all of its rows at once.
create function close_part(of_batch bigint, of_token bigint, of_stream int) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    its regclass;
    its_target regclass;
begin
    select p.relation::regclass, to_regclass(p.target) into its, its_target
    from lockstep.part p where (p.batch_id, p.token, p.stream_id) = (of_batch, of_token, of_stream);
    if its is null or exists (
        select from lockstep.landed l where (l.batch_id, l.token, l.stream_id) = (of_batch, of_token, of_stream)) then
        raise exception 'part_stays: attempt % of batch % has closed its part of stream %, or has none', of_token, of_batch, of_stream
            using errcode = '23514', constraint = 'part_stays';
    end if;
    execute format('revoke insert on %s from lockstep_partition', its);
    perform lockstep.add_keys(its, its_target);
end $$;

-- The parts of the newest, validated attempt, as the batch's partition: nothing is copied, scanned or built. Several parts are
-- partitions by stream of the batch's. A part of another attempt has no way in.
create function attach_parts(target regclass, of_batch bigint, of_token bigint) returns int
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    called name := lockstep.partition_name(target, of_batch, of_token);
    its_owner regrole := (select relowner::regrole from pg_class where oid = target);
    beside regnamespace := (select relnamespace::regnamespace from pg_class where oid = target);
    whole text := format('%s.%I', beside, called);
    parts int := (select count(*) from lockstep.part p where p.batch_id = of_batch and p.token = of_token);
    one record;
begin
    perform lockstep.guard_target(target);
    if parts > 1 then
        execute format('create table %s (like %s including defaults including constraints including storage) partition by list (_stream)',
            whole, target);
        execute format('alter table %s owner to %s', whole, its_owner);
        execute format('alter table %s attach partition %s for values in (%s)', target, whole, of_batch);
    end if;
    for one in
        select p.stream_id, p.relation::regclass as its, c.relnamespace = 'lockstep_staging'::regnamespace
                and c.relname = lockstep.staging_name(a.batch_id, a.token, a.nonce) || '_part_' || p.stream_id
                and to_regclass(p.target) = attach_parts.target as is_own,
            case when parts = 1 then called
                else left(t.relname, 56 - length(of_batch::text) - length(p.stream_id::text)) || '_' || of_batch || '_part_' || p.stream_id
                end as renamed
        from lockstep.part p join lockstep.attempt a using (batch_id, token) join pg_class t on t.oid = attach_parts.target
        left join pg_class c on c.oid = p.relation
        where p.batch_id = of_batch and p.token = of_token order by p.stream_id
    loop
        if one.is_own is not true then
            raise exception 'own_part: attempt % of batch % has no part % for %', of_token, of_batch, one.stream_id, target
                using errcode = '23514', constraint = 'own_part';
        end if;
        execute format('revoke all on %s from lockstep_partition', one.its);
        execute format('alter table %s set schema %s', one.its, beside);
        execute format('alter table %s rename to %I', one.its, one.renamed);
        execute format('alter table %s owner to %s', one.its, its_owner);
        execute format('alter table %s attach partition %s for values in (%s)',
            case when parts = 1 then target::text else whole end, one.its, case when parts = 1 then of_batch else one.stream_id end);
        execute format('alter table %s drop constraint its_part', one.its);
    end loop;
    return parts;
end $$;

-- The batch of a partition that consists of parts, if it is committed. What a person has attached there stays as it is.
create function batch_of_parts(target regclass, whole regclass) returns bigint
    language sql stable security definer
    set search_path = pg_catalog, pg_temp as $$
    select b.batch_id from pg_class c join pg_inherits i on i.inhrelid = c.oid and i.inhparent = target
    join lockstep.batch b on b.state = 'committed'
        and b.batch_id = substring(pg_get_expr(c.relpartbound, c.oid) from $re$^FOR VALUES IN \('?(\d+)'?\)$re$)::bigint
    where c.oid = whole and c.relkind = 'p' and lockstep.is_own_target(target) and not exists (
        select from pg_inherits n join pg_class p on p.oid = n.inhrelid
        where n.inhparent = whole and (p.relname !~ '_part_[0-9]+$' or p.relkind <> 'r'))
$$;

-- Upkeep: a table for the rows of all parts, filled by this transaction. From now on nobody changes the parts.
create function begin_merge(target regclass, whole regclass) returns regclass
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    called text := (select format('%s.%I', relnamespace::regnamespace, left(relname, 56) || '_merged') from pg_class where oid = whole);
begin
    if lockstep.batch_of_parts(target, whole) is null then
        return null;
    end if;
    execute format('lock table %s in share row exclusive mode', whole);
    execute format('create table %s (like %s including defaults including constraints including storage,
        constraint its_part check (_batch = bigint %L))', called, target, lockstep.batch_of_parts(target, whole));
    execute format('grant insert on %s to lockstep_committer', called);
    return to_regclass(called);
end $$;

-- That table in place of the parts. Its rows are the batch's, all that its commit has counted: with fewer, an older snapshot
-- could miss what was deleted since.
create function end_merge(target regclass, whole regclass, merged regclass) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    of_batch bigint := lockstep.batch_of_parts(target, whole);
    called name := (select relname from pg_class where oid = whole);
    held bigint;
begin
    if of_batch is null or not exists (
        select from pg_class c where c.oid = merged and c.xmin = pg_current_xact_id()::xid and c.relname = left(called, 56) || '_merged') then
        raise exception 'own_merge: % is no copy of % that this transaction makes', merged, whole
            using errcode = '23514', constraint = 'own_merge';
    end if;
    execute format('select count(*) from %s', merged) into held;
    if held <> (select sum(l.rows) from lockstep.landed l join lockstep.commit c using (batch_id, token, stream_id) where l.batch_id = of_batch) then
        return false;
    end if;
    execute format('revoke insert on %s from lockstep_committer', merged);
    perform lockstep.add_keys(merged, target);
    execute format('alter table %s owner to %s', merged, (select relowner::regrole from pg_class where oid = target));
    execute format('lock table only %s in access exclusive mode', target);
    execute format('drop table %s', whole);
    execute format('alter table %s rename to %I', merged, called);
    execute format('alter table %s attach partition %s for values in (%s)', target, merged, of_batch);
    execute format('alter table %s drop constraint its_part', merged);
    return true;
end $$;

-- Nobody fills a part any more that is counted.
create function guard_closed_part() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if exists (
        select from lockstep.part p where (p.batch_id, p.token, p.stream_id) = (new.batch_id, new.token, new.stream_id)
          and has_table_privilege('lockstep_partition', p.relation, 'insert')) then
        raise exception 'part_is_closed: the part of stream % of batch % may still be filled', new.stream_id, new.batch_id
            using errcode = '23514', constraint = 'part_is_closed';
    end if;
    return new;
end $$;
create trigger part_is_closed before insert on landed for each row execute function guard_closed_part();

-- No part is kept without its counts.
create function guard_landed_part() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (
        select from lockstep.landed l where (l.batch_id, l.token, l.stream_id) = (new.batch_id, new.token, new.stream_id)) then
        raise exception 'part_landed: the part of stream % of batch % was not counted', new.stream_id, new.batch_id
            using errcode = '23514', constraint = 'part_landed';
    end if;
    return null;
end $$;
create constraint trigger part_landed after insert on part deferrable initially deferred
    for each row execute function guard_landed_part();

-- A commit has attached each part of its attempt.
create function guard_attached() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    missing record;
begin
    select p.batch_id, p.stream_id into missing from added a join lockstep.part p using (batch_id, token, stream_id)
    where not exists (select from pg_inherits i where i.inhrelid = p.relation) limit 1;
    if found then
        raise exception 'part_is_attached: the part of stream % of batch % is no partition', missing.stream_id, missing.batch_id
            using errcode = '23514', constraint = 'part_is_attached';
    end if;
    return null;
end $$;
create trigger part_is_attached after insert on commit referencing new table as added
    for each statement execute function guard_attached();

revoke execute on function make_part, add_keys, close_part, attach_parts, batch_of_parts, begin_merge, end_merge, guard_closed_part, guard_landed_part,
    guard_attached from public;
grant execute on function make_part, close_part to lockstep_partition;
grant execute on function attach_parts, batch_of_parts, begin_merge, end_merge to lockstep_committer;
grant select on part to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
