-- Beside the name that is given, the ledger records whom the database and the machine know.

-- Null: recorded before this migration.
alter table decision add column login name, add column client inet, add column program text, add column os_user text;
alter table request add column login name, add column client inet, add column program text, add column os_user text;

-- The login, its address and its program are the server's knowledge, whatever the statement says. The user of the
-- operating system is the client's word: the code asks the kernel for it, not the environment.
create function record_session() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    new.login := session_user;
    new.client := inet_client_addr();
    new.program := nullif(current_setting('application_name'), '');
    new.os_user := nullif(current_setting('lockstep.os_user', true), '');
    return new;
end $$;
create trigger recorded_session before insert on decision for each row execute function record_session();
create trigger recorded_session before insert on request for each row execute function record_session();
