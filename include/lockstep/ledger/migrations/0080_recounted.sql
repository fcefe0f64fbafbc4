-- Rows of an upserted table are counted by the effects of commits. A row that somebody has deleted or put in stays in that
-- count for ever, also where it is right again. A person says from where to count on, and the ledger keeps by how much.
do $$
declare
    kinds text := (select pg_get_constraintdef(oid) from pg_constraint
        where conrelid = 'lockstep.decision'::regclass and conname = 'decision_kind_check');
begin
    if strpos(kinds, '''restored''::text') = 0 then
        raise exception 'decision_kind_check is not as migration 0073 made it: %', kinds;
    end if;
    alter table decision drop constraint decision_kind_check;
    execute format('alter table decision add constraint decision_kind_check %s',
        replace(kinds, '''restored''::text', '''restored''::text, ''recount''::text'));
end $$;

alter table decision add constraint recount_is_told check (kind <> 'recount' or (
    coalesce(jsonb_typeof(detail -> 'target') = 'string', false)
    and coalesce(detail ->> 'rows' ~ '^-?[1-9][0-9]{0,17}$' and jsonb_typeof(detail -> 'rows') = 'number', false)));
