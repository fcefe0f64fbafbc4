"""Tests altering a table to its definition: rows staged before, commits meanwhile, and verify afterwards."""

from __future__ import annotations

import json
from contextlib import closing

import psycopg2
import pytest

from lockstep.adapters.postgres import PLANNER, transaction
from lockstep.core.errors import LockTimeout, Refusal
from lockstep.ledger.proof.verify_contents import CONTENTS_AS_COMMITTED
from lockstep.steps.batch.commit import commit
from lockstep.steps.changes.evolve import apply, propose
from lockstep.steps.proof.verify import verify
from support.scenes.here import ME

OLD, NEW = "id string, n int", "id string, n bigint, more string"
APPENDED = """create table public.drill (id varchar(20), n int, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null, primary key (_stream, _offset, _ordinal));"""
HELD = "select count(*), count(distinct id), sum(n), count(more) from public.drill"
BATCH = "select from lockstep.batch where batch_id = {} for no key update"


def changes(here):
    """Returns the pipeline as it is defined now, and the columns that it decodes, as `apply` takes them."""
    pipeline = here.folder.pipeline
    return here.at.conn, pipeline, [pipeline.columns for _ in pipeline.targets]


def applied(here):
    return apply(*changes(here), propose(*changes(here)).digest, ME)  # type: ignore[call-arg]


def proven(here) -> None:
    checks = verify(here.at.conn, here.at.broker, here.folder, deep=True)
    assert [check for check in checks if not check.ok] == []
    assert [check.left_out for check in checks if check.name.startswith(CONTENTS_AS_COMMITTED) and check.left_out] == []


@pytest.mark.parametrize("kind", ["append", "by batch", "upsert"])
def test_a_batch_that_was_staged_before_commits_whole_and_later_ones_fill_the_column(contents, drill, produce, kind):
    here = contents(kind)
    before, attempt = here.folder, here.validated()
    here.rewrite(OLD, NEW)
    assert len(applied(here).statements) == 2

    commit(here.at, before, attempt)

    assert drill.ask(HELD) == [(150, 150, sum(range(150)), 0)]
    proven(here)
    produce(drill.topic, [("k", json.dumps({"id": "new", "n": 2**40, "more": "m"}))])
    here.drain()
    assert drill.ask("select n, more from public.drill where id = 'new'") == [(2**40, "m")]
    proven(here)


@pytest.mark.parametrize("kind", ["append", "by batch", "upsert"])
def test_old_rows_hold_null_until_a_replay_fills_them(contents, drill, kind):
    here = contents(kind)
    here.drain()
    here.rewrite(OLD, "id string, n int, m int")
    here.code = lambda value: value | {"m": value["n"]}
    with pytest.raises(Refusal, match=r"no column m; .*  Next: lockstep migrate drill --propose$"):
        here.replay()
    applied(here)
    assert drill.ask("select count(*), count(m) from public.drill") == [(150, 0)]
    here.replay()
    assert drill.ask("select count(*), sum(m) from public.drill") == [(150, sum(range(150)))]


def test_a_batch_under_way_is_refused_by_name_and_goes_on_after_the_change(contents, drill):
    here = contents("append")
    here.rewrite(OLD, NEW)
    with pytest.raises(
        Refusal, match=r"target public.drill has no column more; .*  Next: lockstep migrate drill --propose"
    ):
        here.drain()
    applied(here)
    here.run(retry=True)
    here.drain()
    assert drill.ask(HELD) == [(150, 150, sum(range(150)), 0)]
    proven(here)


def test_a_change_waits_for_a_commit_under_way(contents, drill, monkeypatch):
    here = contents("append")
    attempt = here.validated()
    here.rewrite(OLD, NEW)
    monkeypatch.setitem(transaction.__wrapped__.__kwdefaults__, "lock_seconds", 0.5)  # type: ignore[attr-defined]
    with closing(psycopg2.connect(drill.dsn)) as committing:
        committing.cursor().execute(f"set role lockstep_committer; {BATCH.format(attempt.batch_id)}")
        with pytest.raises(LockTimeout, match="a plan or a commit is under way"):
            applied(here)
    assert applied(here).changed


def test_a_table_that_changes_while_the_change_waits_refuses_the_digest(contents, behind, drill):
    here = contents("append")
    here.rewrite(OLD, NEW)
    with behind("alter table public.drill add column more varchar(3)", "lockstep_targets") as (_, meanwhile):
        answer = meanwhile(lambda: applied(here))
    assert "is not what is proposed now" in answer()
    assert drill.ask("select count(*) from lockstep.decision where kind = 'alter'") == [(0,)]


def test_of_two_statements_none_is_kept_when_one_fails(contents, drill):
    here = contents("append")
    here.rewrite(OLD, "id string, more string, n bigint")
    here.sql("create view public.seen as select n from public.drill")
    with pytest.raises(Refusal, match="used by a view"):
        applied(here)
    assert drill.ask(
        "select count(*) from pg_attribute where attrelid = 'public.drill'::regclass and attname = 'more'"
    ) == [(0,)]


def test_every_table_of_the_pipeline_is_altered_and_committed_into(contents, drill):
    here = contents("several")
    (here.drill.home / "drill" / "transform.py").unlink()
    here.rewrite('(Append("public.drill", "one"), Append("public.beside", "other"))', 'Append("public.drill")')
    here.rewrite('Append("public.drill")', '(Append("public.drill"), Append("public.beside"))')
    here.drain()
    here.rewrite(OLD, NEW)
    assert {change.table for change in propose(*changes(here)).changes} == {"public.drill", "public.beside"}
    assert len(applied(here).statements) == 4
    for table in ("public.drill", "public.beside"):
        assert drill.ask(f"select count(more), count(n) from {table}") == [(0, 150)]
    proven(here)


def test_contents_of_a_text_that_became_longer_are_still_proven(contents, drill):
    here = contents("append", target_sql=APPENDED)
    here.drain()
    applied(here)
    assert drill.ask(
        "select format_type(atttypid, atttypmod) from pg_attribute where attname = 'id'"
        " and attrelid = 'public.drill'::regclass"
    ) == [("text",)]
    proven(here)
    with psycopg2.connect(drill.dsn) as conn, conn.cursor() as cur:
        cur.execute("set role lockstep_owner; update public.drill set id = 'forged' where id = 'r7'")
    conn.close()
    wrong = [check.name for check in verify(here.at.conn, here.at.broker, here.folder, deep=False) if not check.ok]
    assert wrong == [CONTENTS_AS_COMMITTED]


def test_totals_are_explained_and_never_altered(contents):
    here = contents("accumulate")
    here.rewrite(OLD, "id string, n int, more int")
    here.rewrite('Count("records")', 'Count("records"), Sum("all_more", "more")')
    found = propose(*changes(here))
    assert found.changes == ()
    assert [each.found for each in found.unsafe] == ["target public.drill has no column all_more; it takes numeric"]
    with pytest.raises(Refusal, match="holds no safe change to run"):
        applied(here)


def test_the_database_refuses_an_alteration_that_does_not_tell_what_was_run(ledger):
    row = "insert into lockstep.decision (pipeline, kind, who, why, detail) values ('orders', 'alter', 'me', 'x', %s)"
    with closing(ledger.conn) as conn, transaction(conn, PLANNER) as cur:
        cur.execute("insert into lockstep.pipeline (name) values ('orders')")
        cur.execute(row, ('{"digest": "0123456789abcdef", "statements": ["alter"]}',))
        for detail in (
            "{}",
            '{"digest": "0123456789abcdef"}',
            '{"digest": "0123456789abcdef", "statements": []}',
            '{"digest": "0123", "statements": ["alter"]}',
            '{"digest": "0123456789abcdef", "statements": [1]}',
        ):
            cur.execute("savepoint before")
            with pytest.raises(psycopg2.errors.CheckViolation, match="alter_is_told"):
                cur.execute(row, (detail,))
            cur.execute("rollback to before")
