-- Written once: tasks copy a batch's rows into the table behind a view, and one row hides them from it until the commit.

-- The batches whose rows the views leave out. A row stands here before the first of the batch's rows, and goes with its commit.
create table hidden_batch (
    batch_id bigint primary key references batch,
    rows_table text not null,
    since timestamptz not null default clock_timestamp()
);

-- The ranges that the tasks of an attempt have copied, each in the transaction of its rows.
create table landed (
    batch_id bigint not null,
    token bigint not null,
    stream_id int not null,
    rows bigint not null,
    rows_digest numeric not null,
    shape_id int not null references shape,
    constraint landed_once primary key (batch_id, token, stream_id),
    constraint landed_counts check (rows >= 0),
    foreign key (batch_id, token) references attempt,
    foreign key (batch_id, stream_id) references batch_range
);

-- The table behind a view that leaves hidden batches out, or null. Only the ledger's owner makes such a view.
create function rows_behind(shown regclass) returns regclass
language sql stable set search_path = pg_catalog, pg_temp as $$
    select t.oid::regclass
    from pg_class v join pg_class t on t.relnamespace = v.relnamespace and t.relname = v.relname || '_rows' and t.relkind = 'r'
    where v.oid = shown and v.relkind = 'v' and v.relowner = 'lockstep_owner'::regrole
      and 2 = (
        select count(distinct d.refobjid) from pg_rewrite r join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
        where r.ev_class = v.oid and d.refclassid = 'pg_class'::regclass
          and d.refobjid in (t.oid, 'lockstep.hidden_batch'::regclass))
$$;

-- Only an unfinished batch that may be committed is hidden, and only where a view leaves its rows out.
create function guard_hiding() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    found text;
begin
    select b.state into found from lockstep.batch b where b.batch_id = new.batch_id for share;
    if found is distinct from 'planned' or exists (
        select from lockstep.batch b join lockstep.request r using (request_id) where b.batch_id = new.batch_id and r.preview) then
        raise exception 'hidden_is_planned: batch % is %, or a preview', new.batch_id, coalesce(found, 'not there')
            using errcode = '23514', constraint = 'hidden_is_planned';
    end if;
    if lockstep.rows_behind(to_regclass(left(new.rows_table, -5))) is distinct from to_regclass(new.rows_table)
            or to_regclass(new.rows_table) is null then
        raise exception 'hidden_by_view: no view leaves the hidden rows of % out', new.rows_table
            using errcode = '23514', constraint = 'hidden_by_view';
    end if;
    return new;
end $$;
create trigger hidden_is_planned before insert on hidden_batch for each row execute function guard_hiding();

-- What hides a batch hides it in one table, until it goes.
create function guard_hidden() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    raise exception 'hidden_stays: batch % is hidden in %', old.batch_id, old.rows_table
        using errcode = '23514', constraint = 'hidden_stays';
end $$;
create trigger hidden_stays before update on hidden_batch for each row execute function guard_hidden();

-- Rows are shown by the commit of their batch. Without one the batch is over, and all of its rows are gone.
create function guard_shown() returns trigger language plpgsql security definer
    set search_path = pg_catalog, pg_temp set enable_seqscan = off set row_security = off as $$
declare
    found text := (select b.state from lockstep.batch b where b.batch_id = old.batch_id);
    is_left boolean := found is distinct from 'abandoned';
begin
    if exists (select from lockstep.hidden_batch h where h.batch_id = old.batch_id) or (
            found = 'committed' and exists (select from lockstep.commit c where c.batch_id = old.batch_id)) then
        return null;
    end if;
    if not is_left and to_regclass(old.rows_table) is not null then
        execute format('select exists (
            select from lockstep.batch_range r join %s t
                on t._stream = r.stream_id and t._offset >= lower(r.offsets) and t._offset < upper(r.offsets)
            where r.batch_id = $1 and t._batch = $1)', to_regclass(old.rows_table)) into is_left using old.batch_id;
    end if;
    if is_left then
        raise exception 'shown_with_commit: batch % is %, and its rows would be seen', old.batch_id, found
            using errcode = '23514', constraint = 'shown_with_commit';
    end if;
    return null;
end $$;
create constraint trigger shown_with_commit after delete on hidden_batch deferrable initially deferred
    for each row execute function guard_shown();

-- A committed batch is not hidden.
create function guard_shown_commit() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if exists (select from lockstep.hidden_batch h where h.batch_id = new.batch_id) then
        raise exception 'shown_by_commit: batch % is committed and still hidden', new.batch_id
            using errcode = '23514', constraint = 'shown_by_commit';
    end if;
    return null;
end $$;
create constraint trigger shown_by_commit after insert on commit deferrable initially deferred
    for each row execute function guard_shown_commit();

-- The fence of a task that copies: the batch is this attempt's until the transaction ends, and it is hidden.
create function guard_landing() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    newest bigint;
    found text;
begin
    select b.token, b.state into newest, found from lockstep.batch b where b.batch_id = new.batch_id for share;
    if newest is distinct from new.token or found is distinct from 'planned' then
        raise exception 'newest_attempt: attempt % of batch % is not its newest', new.token, new.batch_id
            using errcode = '23514', constraint = 'newest_attempt';
    end if;
    if not exists (select from lockstep.hidden_batch h where h.batch_id = new.batch_id) then
        raise exception 'landed_is_hidden: rows of batch % would be seen before its commit', new.batch_id
            using errcode = '23514', constraint = 'landed_is_hidden';
    end if;
    return new;
end $$;
create trigger landed_is_hidden before insert on landed for each row execute function guard_landing();

-- An attempt whose tasks have copied has copied each of its ranges, and as many rows as were validated.
create function guard_landed() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    missing record;
begin
    select a.batch_id, a.stream_id into missing from added a join lockstep.result u using (batch_id, token, stream_id)
    where exists (select from lockstep.landed l where l.batch_id = a.batch_id and l.token = a.token)
      and not exists (
        select from lockstep.landed l
        where (l.batch_id, l.token, l.stream_id, l.rows) = (a.batch_id, a.token, a.stream_id, u.rows)) limit 1;
    if found then
        raise exception 'landed_whole: the rows of stream % of batch % are not those that its tasks copied',
            missing.stream_id, missing.batch_id using errcode = '23514', constraint = 'landed_whole';
    end if;
    return null;
end $$;
create trigger landed_whole after insert on commit referencing new table as added
    for each statement execute function guard_landed();

-- No pipeline writes the table behind another one's view.
create function guard_behind_view() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if new.store = '' and new.target like '%\_rows' and new.target !~ '[.].*[.]'  -- a table of the lake is no relation
            and lockstep.rows_behind(to_regclass(left(new.target, -5))) = to_regclass(new.target) then
        raise exception 'owned_through_view: % holds the rows of the view %', new.target, left(new.target, -5)
            using errcode = '23514', constraint = 'owned_through_view';
    end if;
    return new;
end $$;
create trigger owned_through_view before insert on target_owner for each row execute function guard_behind_view();

revoke execute on function guard_hiding, guard_hidden, guard_shown, guard_shown_commit, guard_landing, guard_landed, guard_behind_view
    from public;
grant select on hidden_batch, landed
    to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
grant insert on hidden_batch to lockstep_stager;
grant delete on hidden_batch to lockstep_committer;
grant insert on landed to lockstep_partition;
