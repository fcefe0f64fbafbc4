"""Tests authors who try to reach the ledger by target.sql: while it runs, and by what it leaves behind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier

import psycopg2
import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import READER, connect, transaction
from lockstep.core.errors import Refusal
from lockstep.ledger.admin.catalog import deviating
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.proof.verify import verify
from support.inputs.author_attacks import ACTS, FORGE, LEFT, PLAIN, TRIGGER, WAYS
from support.scenes.here import Here


def shown(dsn: str) -> tuple:
    """Returns everything that an attack would change."""
    with closing(connect(dsn)) as conn, transaction(conn, "lockstep_owner") as cur:
        cur.execute("select who from lockstep.decision order by decision_id")
        who = [row[0] for row in cur.fetchall()]
        cur.execute("select id from lockstep_staging.kept")
        kept = [row[0] for row in cur.fetchall()]
        cur.execute(
            "select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace"
            " where n.nspname in ('public', 'lockstep', 'lockstep_staging') and c.relname in ('stolen', 'mine')"
            " union all select rolname from pg_roles where rolname = 'mine'"
            " union all select evtname from pg_event_trigger"
            " union all select defaclrole::regrole || ' ' || d.defaclacl::text from pg_default_acl d"
            " where d.defaclacl::text ~ '[{,]='"
        )
        more = [row[0] for row in cur.fetchall()]
        return who, kept, more, deviating(cur)


@pytest.fixture
def author(drill):
    """Returns `author(text)`, which runs `text` after the drill's own target.sql, as `lockstep migrate drill` does."""
    with closing(connect(drill.dsn)) as conn:
        with transaction(conn, "lockstep_owner") as cur:
            cur.execute(
                "insert into lockstep.decision (pipeline, kind, who, why) values ('drill', 'unpause', 'me', 'x')"
            )
        with transaction(conn, "lockstep_stager") as cur:
            cur.execute("create table lockstep_staging.kept as select 'mine'::text as id")
    file = drill.home / "drill" / "target.sql"
    own = file.read_text()

    def run(text: str) -> str:
        file.write_text(f"{own};\n{text}")
        with closing(connect(drill.dsn)) as conn:
            try:
                migrate_target(conn, load("drill"))
            except Refusal as refused:
                return str(refused)
        return ""

    return run


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_no_way_out_of_the_targets_role_reaches_the_ledger(author, drill, way):
    before = shown(drill.dsn)
    for act in (FORGE, ACTS["switches the fence off"], ACTS["reads decisions"]):
        assert author(way.format(act=act)), act
        assert shown(drill.dsn) == before, act
    assert before[0] == ["me"]


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_nothing_of_ledger_and_staging_is_in_the_targets_owners_reach(author, drill, act):
    before = shown(drill.dsn)
    for way in ("as it is", "reset role", "set role none", "a definer's function"):
        assert author(WAYS[way].format(act=act)), way
        assert shown(drill.dsn) == before, way


@pytest.mark.parametrize(("text", "named"), LEFT.values(), ids=LEFT)
def test_code_that_a_run_would_execute_is_not_left_behind(author, drill, text, named):
    before = shown(drill.dsn)
    said = author(text)
    assert named in said
    with closing(Here(drill).at) as at:  # the table is as it was, and a run goes through it
        with transaction(at.conn, READER) as cur:
            cur.execute("select count(*) from pg_proc where pronamespace = 'public'::regnamespace")
            assert cur.fetchone() == (0,)
        Here(drill).drain()
    assert shown(drill.dsn) == before
    assert drill.ask("select count(*) from public.drill") == [(150,)]


def test_code_on_another_pipelines_target_is_not_left_behind_either(author, drill):
    author("create table public.other (like public.drill including all)")
    with closing(connect(drill.dsn)) as conn, transaction(conn, "lockstep_owner") as cur:
        cur.execute("insert into lockstep.pipeline (name) values ('other')")
        cur.execute("insert into lockstep.target_owner (store, target, pipeline) values ('', 'public.other', 'other')")
    said = author(f"{TRIGGER} create trigger t before insert on public.other execute function public.evil()")
    assert "trigger t on public.other runs public.evil()" in said


def test_what_a_table_needs_is_let_through_and_belongs_to_the_targets_owner(author, drill):
    assert author(PLAIN) == ""
    Here(drill).drain()
    assert drill.ask(
        "select count(*), count(distinct number), count(distinct uid) from public.drill where feeling = 'ok'"
    ) == [(150, 150, 150)]
    assert drill.ask(
        "select relname, relowner::regrole::text from pg_class where relname in ('drill', 'shown', 'seen_by', 'i') order by 1"
    ) == [(name, "lockstep_targets") for name in ("drill", "i", "seen_by", "shown")]


def test_a_trigger_whose_function_the_operator_took_over_is_let_through(author, drill):
    text = """create or replace function public.touch() returns trigger language plpgsql as
        'begin new.n := 7; return new; end';"""
    hang = "create or replace trigger touch before insert on public.drill for each row execute function public.touch();"
    assert author(text) == ""
    said = author(hang)
    assert "alter function public.touch() owner to lockstep_owner" in said
    with closing(connect(drill.dsn)) as conn, transaction(conn, "lockstep_owner") as cur:
        cur.execute("alter function public.touch() owner to lockstep_owner")
    assert author(hang) == ""
    Here(drill).drain()
    assert drill.ask("select distinct n from public.drill") == [(7,)]
    assert "must be owner of function" in author(text)


def test_functions_in_the_targets_schema_are_not_taken_for_those_of_postgres(author, drill):
    """The functions fit better than Postgres' own: `unnest(anyarray)`, `sum`, `jsonb_build_object`, `format`."""
    evil = "language plpgsql as $$ begin raise exception 'mine'; end $$;"
    assert not author(
        f"create function public.unnest(text[]) returns setof text {evil}"
        f"create function public.unnest(int[]) returns setof int {evil}"
        f"create function public.unnest(bigint[]) returns setof bigint {evil}"
        f"create function public.format(text, regclass) returns text {evil}"
        f"create function public.format(text, bigint) returns text {evil}"
        f"create function public.to_jsonb(text) returns jsonb {evil}"
        f"create function public.lower(int8range) returns bigint {evil}"
        f"create function public.upper(int8range) returns bigint {evil}"
    )
    here = Here(drill)
    try:
        here.drain()
    except psycopg2.Error as error:
        pytest.fail(f"taken for one of Postgres: {error}")
    assert [check.name for check in verify(here.at.conn, here.at.broker, here.folder, deep=True) if not check.ok] == []
    here.at.close()
    assert drill.ask("select id, n from public.drill order by n") == [(f"r{n}", n) for n in range(150)]


def test_two_migrations_of_one_target_come_one_after_the_other(drill):
    """As of two machines that deploy together: `if not exists` alone lets both make the table."""
    file = drill.home / "drill" / "target.sql"
    file.write_text(f"create table if not exists public.beside (n int); {file.read_text()}; select pg_sleep(1)")
    folder, began = load("drill"), Barrier(3)

    def migrated(_: int) -> list[str]:
        with closing(connect(drill.dsn)) as conn:
            began.wait()
            return migrate_target(conn, folder)

    with ThreadPoolExecutor(3) as each:
        assert list(each.map(migrated, range(3))) == [[], [], []]
    assert (drill.advisory_locks(), drill.target_logins()) == ([], [])
