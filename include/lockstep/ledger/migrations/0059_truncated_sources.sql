-- A source's table was truncated. Each record that says so leaves its place in the source's log here, and the last of these
-- places is the floor of the target: a row or a change that lies before it in the source's log is gone.

create table source_truncation (
    target text not null,
    stream_id int not null references stream,
    "offset" bigint not null,
    "order" bytea not null,
    primary key (target, stream_id, "offset")
);

-- The floor falls for nobody but a replay of the truncation itself, which takes it out and puts it back.
create function guard_source_truncation() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_op = 'DELETE' and exists (
        select from lockstep.claim k
        where k.stream_id = old.stream_id and k.offsets @> old."offset" and k.expects = 'batch') then
        return old;
    end if;
    raise exception 'truncation_stays: rows from before the truncation at offset % of stream % would come back to %',
        old."offset", old.stream_id, old.target using errcode = '23514', constraint = 'truncation_stays';
end $$;
create trigger truncation_stays before update or delete on source_truncation
    for each row execute function guard_source_truncation();

-- At the COMMIT of a truncation no row of the target lies before it. It looks with the rights of the role that commits.
create function guard_emptied() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    older boolean;
begin
    if to_regclass(new.target) is null then
        return null;
    end if;
    execute format('select exists (select from %s t where (t._source_order >= $1) is not true)', to_regclass(new.target))
        into older using new."order";
    if older then
        raise exception 'truncated_is_empty: % has rows from before the truncation at offset % of stream %',
            new.target, new."offset", new.stream_id using errcode = '23514', constraint = 'truncated_is_empty';
    end if;
    return null;
end $$;
create constraint trigger truncated_is_empty after insert on source_truncation deferrable initially deferred
    for each row execute function guard_emptied();

grant select on source_truncation
    to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
grant insert, delete on source_truncation to lockstep_committer, lockstep_partition;
