"""Tests that `lockstep check` and `lockstep migrate` agree about target.sql, whose tables may lie behind a view."""

from __future__ import annotations

import pytest

from cli.conftest import APPENDED
from support.scenes.command_line import DEFINITION

APPEND = DEFINITION.replace("Pipeline, Upsert", "Append, Idempotent, PerPartition, Pipeline, Postgres, Upsert").replace(
    'Upsert("public.orders", key=("id",))', 'Append("public.orders")'
)
BEHIND = APPENDED.replace("public.orders (", "public.orders_rows (")
FILES = {
    "its own name": {},
    "behind a view": {"target": BEHIND},
    "behind a view, in quotation marks": {"target": BEHIND.replace("public.orders_rows", 'public."orders_rows"')},
    "without the schema": {"target": APPENDED.replace("public.orders", "orders")},
    "behind a view, without the schema": {"target": BEHIND.replace("public.orders_rows", "orders_rows")},
    "after a text with a comment's marks": {"target": "select '/*', '--'; " + APPENDED + "select '*/';"},
    "partitions by batch": {"target": APPENDED.replace("\n);", ") partition by list (_batch);").replace(
        "(_stream, _offset, _ordinal)", "(_batch, _stream, _offset, _ordinal)"
    )},
}  # fmt: skip
NO_TABLE = {
    "another name": {"target": APPENDED.replace("public.orders", "public.orders2")},
    "an index of that name": {
        "target": APPENDED.replace("public.orders", "public.others") + "create index orders on public.others (id);"
    },
    "a table of rows that no view of an upsert is drawn before": {
        "target": BEHIND,
        "init": APPEND.replace('Append("public.orders")', 'Upsert("public.orders", key=("id",))'),
    },
    "a table of rows that tasks would not find": {
        "target": BEHIND,
        "init": APPEND.replace("topic=", "guarantee=PerPartition(), topic="),
    },
}


@pytest.fixture
def at_a_ledger(lockstep, database):
    lockstep.environ(LOCKSTEP_DSN=database)
    return lockstep


@pytest.mark.parametrize("form", FILES)
def test_what_migrate_makes_check_takes(at_a_ledger, form):
    at_a_ledger.define(**{"init": APPEND, "target": APPENDED} | FILES[form])

    made, checked = at_a_ledger("migrate", "orders"), at_a_ledger("check", "orders")

    assert (made.code, made.err) == (0, "")
    assert (checked.code, checked.err) == (0, "")


@pytest.mark.parametrize("form", NO_TABLE)
def test_what_leaves_migrate_without_a_table_is_a_fault(at_a_ledger, form):
    at_a_ledger.define(**{"init": APPEND} | NO_TABLE[form])

    checked, made = at_a_ledger("check", "orders"), at_a_ledger("migrate", "orders")

    assert (checked.code, made.code) == (1, 1)
    assert "target.sql: does not create the target public.orders" in checked.err
    assert "target.sql does not give a table public.orders" in made.err


def test_a_copy_has_a_table_of_rows_and_a_view_of_its_own(at_a_ledger):
    at_a_ledger.define(init=APPEND, target=BEHIND)
    assert at_a_ledger("migrate", "orders").code == 0

    assert at_a_ledger("clone", "orders", "--to", "later").code == 0

    assert "public.later_rows (" in (at_a_ledger.pipelines / "later" / "target.sql").read_text()
    said = [at_a_ledger(word, "later") for word in ("check", "migrate")]
    assert [(each.code, each.err) for each in said] == [(0, "")] * 2
