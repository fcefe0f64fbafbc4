"""Tests that each statement that a login of a run could try is refused, or is on the written list with its reason.

The statements are generated from the catalog, so that a table, column, function, sequence or schema that is new is tried, too.
"""

from __future__ import annotations

import os
import re
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from psycopg2.extensions import make_dsn
from psycopg2.extras import NamedTupleCursor

from lockstep.adapters.postgres import connect
from support.inputs.every_statement import every_statement, schemas_of_ledger
from support.oracles.trial import try_each
from support.oracles.written_list import written_list
from support.scenes.whole_ledger import fill, whole_ledger

LIST = Path(__file__).with_name("accepted_statements.txt")
OF_A_RUN = ("planner", "stager", "committer", "partition", "reader")
LOGINS = {**{role: (role,) for role in (*OF_A_RUN, "executor", "judge")}, "run": OF_A_RUN}
AT_LEAST = 2000
ROWLESS = """select c.oid::regclass::text from pg_class c where c.relkind in ('r', 'p')
    and c.relnamespace::regnamespace::text = any(%s) and (xpath('/row/n/text()', query_to_xml(
        format('select count(*) as n from %%s', c.oid::regclass), false, true, '')))[1]::text = '0'"""
# A role that may change a column and not read it would not be seen: what changes nothing is told apart by reading.
BLIND = """select r.rolname, a.attrelid::regclass::text, a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid
    cross join pg_roles r where c.relnamespace::regnamespace::text = any(%s) and c.relkind in ('r', 'p') and a.attnum > 0
      and not a.attisdropped and r.rolname ~ '^lockstep_(planner|stager|committer|partition|reader|executor|judge)$'
      and has_column_privilege(r.rolname, a.attrelid, a.attnum, 'update')
      and not has_column_privilege(r.rolname, a.attrelid, a.attnum, 'select')"""
# Such an error says nothing about rights and guards.
WRONG = {
    "42601": "syntax error",
    "42P01": "no such table",
    "42883": "no such function",
    "42804": "another type",
    "22P02": "no value of the type",
    "55P03": "a lock of another session",
    "40P01": "a deadlock",
}


@pytest.fixture(scope="module")
def scene(servers):
    """Yields a filled ledger, its statements, a superuser's cursor there and `login(name)`, a session with these roles."""
    name, made = f"statements_{os.getpid()}", []
    with servers.database(name) as dsn, closing(connect(dsn)) as conn:
        known = whole_ledger(conn)
        admin = psycopg2.connect(
            re.sub(r"/\w+$", f"/{name}", servers.postgres().superuser_dsn), cursor_factory=NamedTupleCursor
        )
        with closing(admin):
            admin.autocommit = True
            cur = admin.cursor()
            fill(cur, known)

            def login(role: str):
                made.append(f"st_{role}_{os.getpid()}_{len(made)}")
                roles = ", ".join(f"lockstep_{each}" for each in LOGINS[role])
                cur.execute(f"create role {made[-1]} login password 'own' in role {roles}")
                return connect(make_dsn(dsn, user=made[-1], password="own"))  # noqa: S106 - of a test's login

            yield every_statement(cur, known), cur, login
            for each in made:
                cur.execute(f"drop role {each}")


@pytest.fixture(scope="module")
def answers(scene):
    """Returns what each login tried, and what was accepted."""
    statements, _, login = scene
    found = {}
    for name in LOGINS:
        with closing(login(name)) as session:
            found[name] = try_each(session, None if name == "run" else f"lockstep_{name}", statements)
    return found


def test_each_table_of_the_scene_has_a_row_to_change(scene):
    _, cur, _ = scene
    cur.execute(ROWLESS, (schemas_of_ledger(cur),))
    assert {name for (name,) in cur.fetchall()} == set()


def test_no_role_changes_a_column_that_it_cannot_read(scene):
    _, cur, _ = scene
    cur.execute(BLIND, (schemas_of_ledger(cur),))
    assert cur.fetchall() == []


@pytest.mark.parametrize("name", LOGINS)
def test_each_statement_is_refused_or_on_the_written_list(answers, name, capsys):
    answer = answers[name]
    listed = {entry.key for entry in written_list(LIST) if name in ("run", entry.role)}
    refused = sum(answer.refused.values())
    accepted = answer.count - refused - answer.nothing
    with capsys.disabled():
        print(
            f"\n{name}: {answer.count} statements, {refused} refused, {answer.nothing} without effect, {accepted} accepted,"
            f" which are {len(answer.accepted)} entries of the list"
        )
    assert answer.count >= AT_LEAST
    assert {WRONG[state]: said for state, said in answer.examples.items() if state in WRONG} == {}
    unlisted = {key: sql for key, sql in answer.accepted.items() if _short(key) not in listed}
    assert unlisted == {}, "refuse it, or write down in accepted_statements.txt why a run needs it"


def test_each_entry_of_the_list_is_about_a_statement_that_is_accepted(answers):
    accepted = {(name, _short(key)) for name, answer in answers.items() for key in answer.accepted}
    assert [(each.role, *each.key) for each in written_list(LIST) if (each.role, each.key) not in accepted] == []


def test_no_entry_of_the_list_stands_there_twice():
    entries = [(each.role, each.key) for each in written_list(LIST)]
    assert len(entries) == len(set(entries))


def test_a_guard_that_is_taken_away_is_named(scene):
    statements, cur, login = scene
    tombstones = [each for each in statements if each.kind == "delete" and each.object == "lockstep.tombstone"]
    listed = {entry.key for entry in written_list(LIST)}
    cur.execute("alter table lockstep.tombstone disable trigger memory_stays, disable trigger read_again")
    try:
        with closing(login("committer")) as session:
            accepted = try_each(session, "lockstep_committer", tombstones).accepted
    finally:
        cur.execute("alter table lockstep.tombstone enable trigger memory_stays, enable trigger read_again")
    assert [key for key in accepted if _short(key) not in listed] == [("delete", "lockstep.tombstone", "", "")]


def _short(key: tuple[str, str, str, str]) -> tuple[str, str, str, str]:
    kind, thing, part, how = key
    return kind, thing.removeprefix("lockstep."), part, how
