"""Tests a login with a run's five roles that tries to get more.

Each statement, with what it would give, is refused for every role.
"""

from __future__ import annotations

import os
import re
from contextlib import closing

import psycopg2
import pytest
from psycopg2 import errors

ROLES = ("lockstep_planner", "lockstep_stager", "lockstep_committer", "lockstep_partition", "lockstep_reader")
REFUSED = {
    "set role lockstep_owner": "the owner's rights",
    "set session authorization lockstep_owner": "the owner's rights",
    "set session authorization postgres": "a superuser's rights",
    "grant lockstep_owner to lockstep_stager": "the owner's rights, for good",
    "create role mine superuser": "a superuser of one's own",
    "alter role lockstep_stager superuser": "a superuser's rights",
    "alter role lockstep_owner login password 'x'": "a login that owns the ledger",
    "reassign owned by lockstep_owner to lockstep_stager": "every table",
    "drop owned by lockstep_owner": "an empty ledger",
    "alter default privileges for role lockstep_owner grant all on tables to public": "whatever is made later",
    "alter schema lockstep owner to lockstep_stager": "the schema",
    "alter schema lockstep rename to mine": "another ledger in its place",
    "create table lockstep.mine (id int)": "a table among the owner's",
    "create function lockstep.mine() returns int language sql as 'select 1'": "a function among the guards",
    "create or replace function lockstep.guard_commit() returns trigger language plpgsql as 'begin end'": "no fence",
    "alter function lockstep.guard_commit() set search_path = public": "names of one's own in a guard",
    "alter table lockstep.commit disable trigger all": "no fence",
    "alter table lockstep.commit disable trigger newest_attempt": "no fence",
    "drop trigger newest_attempt on lockstep.commit": "no fence",
    "create trigger mine after insert on lockstep.commit execute function lockstep.guard_version()": "code in commits",
    "alter table lockstep.claim drop constraint claimed_once": "offsets claimed twice",
    "create rule mine as on insert to lockstep.decision do instead nothing": "decisions that nobody sees",
    "alter table lockstep.decision enable row level security": "decisions that nobody sees",
    "alter table lockstep.decision owner to lockstep_stager": "a table of the ledger's",
    "update lockstep.decision set who = 'ceo'": "a decision in another's name",
    "delete from lockstep.decision": "history without it",
    "truncate lockstep.decision cascade": "history without it",
    "update lockstep.commit set token = 0": "another commit than there was",
    "delete from lockstep.commit": "history without it",
    "update lockstep.result set written = 0": "other counts",
    "delete from lockstep.migration": "a ledger of another version",
    "insert into lockstep.migration (version, name, checksum) values (99, 'x', 'x')": "a ledger of another version",
    "select setval('lockstep.token_seq', 1)": "tokens that come again",
    "set session_replication_role = replica": "no trigger and no foreign key",
    "select pg_reload_conf()": "settings of the server",
    "create event trigger mine on ddl_command_end execute function lockstep.guard_version()": "code in each migration",
    "create function pg_temp.mine() returns int language internal as 'getpgusername'": "code in the server",
    "create language mine handler plpgsql_call_handler": "code in the server",
    "copy lockstep.migration to program 'id'": "a program on the server",
    "copy lockstep.migration from '/etc/passwd'": "the server's files",
    "select pg_read_file('/etc/passwd')": "the server's files",
    "select lo_import('/etc/passwd')": "the server's files",
    "select rolpassword from pg_authid": "the passwords of logins",
    "create server mine foreign data wrapper mine": "another database",
    "create publication mine for all tables": "a copy of every table",
    "select pg_create_physical_replication_slot('mine')": "a server that keeps its log for ever",
    "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'postgres' or backend_type <> 'client backend'":
        "processes of others",
}  # fmt: skip
LETS_IN = (errors.InsufficientPrivilege, errors.UndefinedObject)


@pytest.fixture(scope="module")
def run_login(servers):
    """Yields a session whose login has the five roles of a run and nothing else, in a separate database."""
    name, database = f"run_{os.getpid()}", f"attacked_{os.getpid()}"
    with servers.database(database) as dsn, closing(psycopg2.connect(servers.postgres().superuser_dsn)) as admin:
        admin.autocommit = True
        act = admin.cursor().execute
        act(f"create role {name} login password 'own'")
        act(f"grant {', '.join(ROLES)} to {name}")
        with closing(psycopg2.connect(re.sub(r"//[^@]+@", f"//{name}:own@", dsn))) as conn:
            yield conn
        act(f"drop role {name}")


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("statement", REFUSED, ids=[f"{gives}: {said[:40]}" for said, gives in REFUSED.items()])
def test_no_role_of_a_run_gets_more(run_login, role, statement):
    with run_login.cursor() as cur:
        cur.execute(f"set role {role}")
        try:
            with pytest.raises(LETS_IN):
                cur.execute(statement)
        finally:
            run_login.rollback()
