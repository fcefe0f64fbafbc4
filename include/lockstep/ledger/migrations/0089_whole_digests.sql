-- Digests have all 64 letters of SHA-256. Decisions from before have 16.
do $$
declare
    each record;
begin
    for each in
        select c.conname, pg_get_constraintdef(c.oid) as definition from pg_constraint c
        where c.conrelid = 'lockstep.decision'::regclass and c.conname in ('adopt_is_told', 'alter_is_told', 'move_is_told')
    loop
        if strpos(each.definition, '''^[0-9a-f]{16}$''') = 0 then
            raise exception '% is not as expected: %', each.conname, each.definition;
        end if;
        execute format('alter table lockstep.decision drop constraint %I', each.conname);
        execute format('alter table lockstep.decision add constraint %I %s', each.conname,
            replace(each.definition, '''^[0-9a-f]{16}$''', '''^([0-9a-f]{16}|[0-9a-f]{64})$'''));
    end loop;
end $$;
