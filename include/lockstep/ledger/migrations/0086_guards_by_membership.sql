-- A guard goes by what a login is a member of. A login inherits its roles' rights without `set role`, so the role that was set
-- says nothing about who is not guarded. Who may become the ledger's owner is not guarded here: it may switch guards off.

drop trigger offsets_with_pointer on lake_pointer;
create constraint trigger offsets_with_pointer after insert on lake_pointer
deferrable initially deferred for each row when (
    new.role = 'lockstep_committer' or (pg_has_role(session_user, 'lockstep_committer', 'MEMBER')
        and not pg_has_role(session_user, 'lockstep_owner', 'MEMBER')))
execute function guard_lake_pointer();

drop trigger own_range on coverage;
create trigger own_range before delete on coverage
for each row when (
    current_user = 'lockstep_partition'::name or (pg_has_role(session_user, 'lockstep_partition', 'MEMBER')
        and not pg_has_role(session_user, 'lockstep_committer', 'MEMBER')
        and not pg_has_role(session_user, 'lockstep_planner', 'MEMBER')))
execute function guard_task();

drop trigger own_range on claim;
create trigger own_range before delete on claim
for each row when (
    current_user = 'lockstep_partition'::name or (pg_has_role(session_user, 'lockstep_partition', 'MEMBER')
        and not pg_has_role(session_user, 'lockstep_committer', 'MEMBER')
        and not pg_has_role(session_user, 'lockstep_planner', 'MEMBER')))
execute function guard_task();

drop trigger own_range on stream;
create trigger own_range before update of "position" on stream
for each row when (
    current_user = 'lockstep_partition'::name or (pg_has_role(session_user, 'lockstep_partition', 'MEMBER')
        and not pg_has_role(session_user, 'lockstep_committer', 'MEMBER')
        and not pg_has_role(session_user, 'lockstep_planner', 'MEMBER')))
execute function guard_task();
