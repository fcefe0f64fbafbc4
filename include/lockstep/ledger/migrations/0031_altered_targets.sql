-- A change of a target's columns is a decision, with the statements that were run.

-- A kind of decision more, beside whatever kinds there are.
do $$
declare
    kinds text := (select pg_get_constraintdef(oid) from pg_constraint
        where conrelid = 'lockstep.decision'::regclass and conname = 'decision_kind_check');
begin
    if strpos(kinds, '''hand-over''::text') = 0 then
        raise exception 'decision_kind_check is not as migration 0026 made it: %', kinds;
    end if;
    alter table decision drop constraint decision_kind_check;
    execute format('alter table decision add constraint decision_kind_check %s',
        replace(kinds, '''hand-over''::text', '''hand-over''::text, ''alter''::text'));
end $$;

-- Whoever reads the decision knows what was shown, and what was run.
alter table decision add constraint alter_is_told check (kind <> 'alter' or (
    coalesce(detail ->> 'digest' ~ '^[0-9a-f]{16}$', false)
    and coalesce(jsonb_path_exists(detail, '$.statements[*] ? (@.type() == "string" && @ != "")'), false)));
