-- PostgreSQL lets everybody execute a new function. Whoever may make a temporary table could hang a trigger function of the
-- owner's on it, and it would work with the owner's rights on rows that the caller makes up. Functions are granted by name.

revoke execute on all functions in schema lockstep from public;
-- for the role as a whole: what is revoked in a schema alone does not count against what everybody has
alter default privileges for role lockstep_owner revoke execute on functions from public;

-- These run with the caller's rights and read what the caller may read.
grant execute on function
    covers(int, int8range), erased_digest(bigint), is_by_batch(regclass), is_gone(int), is_own_target(regclass), is_replaced(int),
    key_digest(bytea, bytea), key_text(text, text, boolean), lake_tables(jsonb), line_of(text), name_now(text, bigint),
    opened_log(int), read_before(int), reject_digest(int, bigint, timestamptz, bytea, bytea, text, text), rows_behind(regclass),
    staging_name(bigint, bigint, uuid), windows_of_another(text, text), written_tables(jsonb)
to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
-- These two run with the owner's, and say of a stream what is archived, of an attempt what it promises.
grant execute on function archive_of(int), guarantee_of(bigint, bigint)
to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;

-- A trigger with the owner's rights begins with a look at its table, so that a grant alone lets nobody borrow it.
do $$
declare
    each record;
    check_of text;
    changed text;
begin
    for each in
        select p.oid, p.proname, p.prosrc, (
            select min(n.nspname) from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
            where t.tgfoid = p.oid and n.nspname in ('lockstep', 'lockstep_lake')) as of_schema
        from pg_proc p
        where p.pronamespace = 'lockstep'::regnamespace and p.prosecdef and p.prorettype = 'trigger'::regtype
    loop
        check_of := case each.proname when 'capture' then 'tg_relid is distinct from to_regclass(tg_argv[0])'
            when 'guard_image' then 'tg_table_schema <> ''lockstep_feed'''
            else format('tg_table_schema <> %L', coalesce(each.of_schema, 'lockstep')) end;
        changed := regexp_replace(each.prosrc, '(^|\n)begin\n', format(E'\\1begin
    if %s then
        raise exception ''own_table: %% is not a table of this trigger'', tg_relid::regclass
            using errcode = ''23514'', constraint = ''own_table'';
    end if;\n', check_of));
        if changed = each.prosrc then
            raise exception 'the body of % does not begin as expected', each.proname;
        end if;
        execute replace(pg_get_functiondef(each.oid), each.prosrc, changed);
    end loop;
end $$;
