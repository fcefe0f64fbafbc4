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
        raise exception 'one_version: the ledger is at version %, this code is made for %: update lockstep on this machine, '
            'or run lockstep migrate', found, made_for using errcode = '23514', constraint = 'one_version';
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
