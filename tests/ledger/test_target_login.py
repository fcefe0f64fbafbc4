"""Tests the login of target.sql: made for one run, given by the operator, or left by an earlier version."""

from __future__ import annotations

import os
import re
from contextlib import closing
from importlib.resources import files
from typing import Any

import psycopg2
import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import connect, transaction
from lockstep.core.errors import BadDefinition, Refusal
from lockstep.ledger.admin import author
from lockstep.ledger.migrate import migrate_target
from support.scenes.here import Here
from support.scenes.odd_logs import until

HAND_OVER = "0029_targets_have_an_owner.sql"
WHO = "create table public.who as select session_user::text as session, current_user::text as acts"


@pytest.fixture
def login(servers, drill):
    """Yields `login(attributes, *roles)`, which makes a login and returns its DSN of the drill's database."""
    made = []
    with closing(psycopg2.connect(servers.postgres().superuser_dsn)) as admin:
        admin.autocommit = True

        def make(attributes: str = "", *roles: str) -> str:
            name = f"author_{os.getpid()}_{len(made)}"
            admin.cursor().execute(f"create role {name} login {attributes} password 'own'")
            made.append(name)
            for role in roles:
                admin.cursor().execute(f"grant {role} to {name}")
            return re.sub(r"//[^@]+@", f"//{name}:own@", drill.dsn)

        yield make
        with (
            closing(
                psycopg2.connect(re.sub(r"/\w+$", f"/{drill.dsn.rpartition('/')[2]}", servers.postgres().superuser_dsn))
            ) as here,
            here,
        ):
            for name in made:
                here.cursor().execute(f"drop owned by {name}; drop role {name}")


def migrate(drill, text: str = "", own_login: str | None = None, dsn: str | None = None) -> None:
    file = drill.home / "drill" / "target.sql"
    own = file.read_text()
    file.write_text(f"{own};{text}")
    try:
        with closing(connect(dsn or drill.dsn)) as conn:
            migrate_target(conn, load("drill"), own_login)
    finally:
        file.write_text(own)


def test_a_login_of_its_own_runs_the_text_and_is_gone_behind_it(drill):
    migrate(drill, WHO)
    ((session, acts),) = drill.ask("select session, acts from public.who")
    assert session.startswith("lockstep_target_")
    assert acts == "lockstep_targets"
    assert drill.target_logins() == []


def test_the_login_is_gone_behind_a_text_that_is_refused_too(drill):
    with pytest.raises(BadDefinition, match="no_such"):
        migrate(drill, "select no_such")
    assert drill.target_logins() == []


def test_a_text_is_kept_whole_or_not_at_all(drill):
    for end in ("select no_such", "commit", "do $$ begin commit; end $$"):
        with pytest.raises(BadDefinition):
            migrate(drill, f"create table public.half (); {end}")
        assert drill.ask("select to_regclass('public.half')::text") == [(None,)], end


def test_what_the_login_itself_makes_belongs_to_the_targets_owner(drill):
    with closing(connect(drill.dsn)) as conn, transaction(conn, None) as cur:
        cur.execute("create schema anybodys; grant all on schema anybodys to public")
    migrate(drill, "set role none; create table anybodys.mine (id int)")
    assert drill.ask("select relowner::regrole::text from pg_class where relname = 'mine'") == [("lockstep_targets",)]
    assert drill.target_logins() == []


def test_a_login_that_a_dead_run_left_goes_with_the_next_run(drill):
    left = f"lockstep_target_left_{os.getpid()}"
    with closing(connect(drill.dsn)) as conn, transaction(conn, None) as cur:
        cur.execute(f"create role {left} login valid until '2020-01-01';"
                    f"grant lockstep_targets to {left}; grant {left} to current_user")  # fmt: skip
    migrate(drill)
    until(lambda: not drill.ask("select from pg_roles where rolname = %s", left), "another test's run still drops it")
    assert drill.target_logins() == []


def test_no_statement_of_the_servers_log_holds_a_password(drill, monkeypatch):
    said = []
    monkeypatch.setattr(author.secrets, "token_urlsafe", lambda _: "canary-of-a-password")
    with closing(connect(drill.dsn)) as conn:

        class Noted(author.sql.SQL):
            def format(self, *parts: Any, **named: Any):
                made = super().format(*parts, **named)
                said.append(made.as_string(conn))
                return made

        monkeypatch.setattr(author.sql, "SQL", Noted)
        migrate_target(conn, load("drill"))
    assert any("create role" in each and "SCRAM-SHA-256$" in each for each in said)
    assert not [each for each in said if "canary" in each]


def test_a_login_without_createrole_is_told_what_it_can_do(drill, login):
    dsn = login("", "lockstep_owner", "lockstep_reader")
    with pytest.raises(Refusal, match=r"may not make one for target\.sql") as refused:
        migrate(drill, dsn=dsn)
    assert "LOCKSTEP_TARGETS_DSN" in refused.value.next_command
    migrate(drill, WHO, own_login=login("noinherit", "lockstep_targets"), dsn=dsn)
    assert drill.ask("select acts from public.who") == [("lockstep_targets",)]


@pytest.mark.parametrize(
    ("attributes", "roles", "told"),
    [
        ("superuser", (), "superuser"),
        ("createrole", ("lockstep_targets",), "createrole"),
        ("bypassrls", ("lockstep_targets",), "free of policies"),
        ("replication", ("lockstep_targets",), "a replica"),
        ("", ("lockstep_targets", "lockstep_owner"), "lockstep_owner"),
        ("noinherit", ("lockstep_targets", "lockstep_committer"), "lockstep_committer"),
        ("", ("lockstep_targets", "lockstep_reader"), "lockstep_reader"),
        ("", ("lockstep_targets", "pg_write_all_data"), "pg_write_all_data"),
        ("", ("lockstep_targets", "pg_execute_server_program"), "pg_execute_server_program"),
        ("", (), "no member of lockstep_targets"),
    ],
)
def test_an_operators_login_that_may_more_is_refused(drill, login, attributes, roles, told):
    with pytest.raises(Refusal, match=told):
        migrate(drill, WHO, own_login=login(attributes, *roles))
    assert drill.ask("select to_regclass('public.who')::text") == [(None,)]


def test_an_operators_login_of_another_database_is_refused(drill, login):
    own = login("", "lockstep_targets")
    with pytest.raises(Refusal, match="another database"):
        migrate(drill, own_login=re.sub(r"/\w+$", "/postgres", own))


def test_an_operators_login_that_is_not_let_in_is_named_without_its_password(drill, login):
    own = login("", "lockstep_targets").replace(":own@", ":canary@")
    with pytest.raises(Refusal, match=r"the ledger's database, for target\.sql, does not answer") as refused:
        migrate(drill, own_login=own)
    assert "canary" not in str(refused.value)


def owners(drill) -> set[str]:
    found = drill.ask(
        "select relowner::regrole::text from pg_class where relnamespace = 'public'::regnamespace union"
        " select proowner::regrole::text from pg_proc where pronamespace = 'public'::regnamespace union"
        " select typowner::regrole::text from pg_type where typnamespace = 'public'::regnamespace"
    )
    return {owner for (owner,) in found}


BY_BATCH = """drop table public.drill; create table public.drill (id text, n int, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null,
    primary key (_stream, _offset, _ordinal, _batch)) partition by list (_batch);"""
OF_AN_EARLIER_VERSION = """create type public.mood as enum ('ok'); create domain public.small as int check (value < 9);
    create table public.extra (id bigserial, feeling public.mood, n public.small); create sequence public.alone;
    create view public.seen as select * from public.extra; create materialized view public.kept as select 1 as one;
    create function public.f() returns int language sql as 'select 1';
    create procedure public.p() language sql as 'select 1';"""


def test_what_earlier_versions_made_is_handed_over_and_runs_go_on(drill, produce):
    with closing(connect(drill.dsn)) as conn:
        with transaction(conn, "lockstep_owner") as cur:
            cur.execute(BY_BATCH + OF_AN_EARLIER_VERSION)
            cur.execute("grant select, insert, update, delete on public.drill to lockstep_committer;"
                        "grant select on public.drill to lockstep_reader, lockstep_planner, lockstep_stager")  # fmt: skip
        here = Here(drill)
        here.drain()
        assert owners(drill) == {"lockstep_owner"}
        text = files("lockstep.ledger").joinpath("migrations", HAND_OVER).read_text()
        with transaction(conn, "lockstep_owner") as cur:
            cur.execute("set local search_path = lockstep")
            cur.execute(text)
    assert owners(drill) == {"lockstep_targets"}
    produce(drill.topic, [("k", '{"id": "later", "n": 1}')])
    here.drain()
    migrate(drill)
    assert drill.ask("select count(*), count(distinct _batch) from public.drill") == [(151, 2)]
    assert owners(drill) == {"lockstep_targets"}
    assert drill.violations() == []
    here.at.close()


def test_a_table_in_a_schema_of_its_own_is_taken_over_once_the_targets_owner_may_create_there(drill):
    with closing(connect(drill.dsn)) as conn, transaction(conn, None) as cur:
        cur.execute("create schema own; grant usage, create on schema own to lockstep_owner")
        cur.execute("set local role lockstep_owner; create table own.drill (like public.drill including all)")
    file = drill.home / "drill" / "__init__.py"
    file.write_text(file.read_text().replace('"public.drill"', '"own.drill"'))
    with pytest.raises(Refusal, match="cannot become lockstep_targets's") as refused:
        migrate(drill)
    assert refused.value.next_command == "grant create on schema own to lockstep_targets"
    with closing(connect(drill.dsn)) as conn, transaction(conn, None) as cur:
        cur.execute("grant usage, create on schema own to lockstep_targets")
    migrate(drill)
    assert drill.ask("select relowner::regrole::text from pg_class where oid = 'own.drill'::regclass") == [
        ("lockstep_targets",)
    ]
