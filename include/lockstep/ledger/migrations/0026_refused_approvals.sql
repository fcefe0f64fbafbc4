-- An approval that does not count is kept as a decision of its own: who asked, who approved, and why it was refused.
-- The kinds that stand there already stay: another migration may have added some.
do $$
declare
    kinds text;
begin
    select pg_get_expr(conbin, conrelid) into strict kinds from pg_constraint
    where conrelid = 'lockstep.decision'::regclass and conname = 'decision_kind_check';
    alter table lockstep.decision drop constraint decision_kind_check;
    execute format(
        'alter table lockstep.decision add constraint decision_kind_check check ((%s) or kind = ''refuse-approval'')', kinds);
end $$;
