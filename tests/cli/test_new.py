"""`lockstep new` lays out a pipeline that works as it is, or writes nothing."""

from __future__ import annotations

import pytest

from command_line import assert_refused
from lockstep.adapters import folders
from lockstep.core.definition import Json, Upsert


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("../etc", "--topic", "t"), ["name '../etc': lower case letters"]),
        (("sales\n", "--topic", "t"), ["name 'sales\\n': lower case letters"]),
        (("sales", "--topic", "t\n"), ["topic 't\\n' is no legal topic name"]),
        (("Sales", "--topic", "t"), ["name 'Sales': lower case letters"]),
        (
            ("orders_history", "--topic", "t"),
            ["name 'orders_history': _history is the ending of"],
        ),
        (("_history", "--topic", "t"), ["name '_history': _history is the ending of a history's DAG"]),
        (("class", "--topic", "t"), ["name 'class': a word of Python"]),
        (("sales", "--topic", "a b"), ["topic 'a b' is no legal topic name"]),
        (("sales", "--topic", "t", "--columns", "a"), ["schema: 'a' is not `name type`"]),
        (("sales", "--topic", "t", "--columns", "a text"), ["column 'a': type 'text' is not one of"]),
        (("sales", "--topic", "t", "--columns", 'a"b int'), ["column 'a\"b'"]),
        (("sales", "--topic", "t", "--columns", "a int, a int"), ["column 'a' stands there twice"]),
        (("sales", "--topic", "t", "--columns", ""), ["schema: '' is not `name type`"]),
        (("sales", "--topic", "t", "--key", "nr"), ["format.key: 'nr' is not a column of the schema (id, at)"]),
        (("sales", "--topic", "t", "--table", "sales"), ["target.table 'sales': it must be schema.table"]),
        (("orders", "--topic", "t"), ["include/pipelines/orders is there already", "Next: lockstep check orders"]),
    ],
    ids=" ".join,
)
def test_new_refuses_before_it_writes_anything(lockstep, arguments, words):
    lockstep.define()
    before = lockstep.tree()
    assert_refused(lockstep("new", *arguments), *words)
    assert lockstep.tree() == before
    assert [place.name for place in lockstep.pipelines.iterdir()] == ["orders"]


def test_a_folder_that_cannot_be_written_is_said(lockstep):
    (lockstep.pipelines / ".sales.new").write_text("in the way")
    assert_refused(lockstep("new", "sales", "--topic", "t"), "include/pipelines/sales cannot be written")


@pytest.mark.parametrize(
    "options", [(), ("--columns", "id string, user bigint, at timestamp", "--key", "id")], ids=["append", "upsert"]
)
def test_a_new_pipeline_works_as_it_is(lockstep, database, options):
    lockstep.environ(LOCKSTEP_DSN=database)
    said = lockstep("new", "sales", "--topic", "sales.v1", *options)
    assert (said.code, said.err) == (0, "")
    assert said.out.endswith("Next: lockstep check sales, then lockstep migrate sales, then lockstep run sales\n")
    assert sorted(lockstep.tree()) == [
        "sales/__init__.py",
        "sales/expectations.json",
        "sales/target.sql",
        "sales/transform.py",
    ]
    (lockstep.pipelines / "sales" / "transform.py").unlink()  # the shorter way, without a JVM
    assert lockstep("check", "sales").out.startswith("sales: ok;")
    assert lockstep("migrate", "sales").code == 0


def test_a_new_definition_says_what_was_asked_for(lockstep):
    columns = "id string, user string, amount decimal( 12 , 2 ), " + ", ".join(f"column_{n} double" for n in range(20))
    lockstep("new", "sales", "--topic", "sales.v1", "--columns", columns, "--key", "id", "--table", "shop.order")
    pipeline = folders.load("sales").pipeline
    assert (pipeline.topic, pipeline.target) == ("sales.v1", Upsert("shop.order", ("id",)))
    assert pipeline.format == Json(columns.replace(" 12 , 2 ", "12,2"), key="id")
    files = lockstep.tree()
    assert b'"amount" numeric(12,2)' in files["sales/target.sql"]
    assert max(len(line) for line in files["sales/__init__.py"].splitlines()) <= 120
    assert b"from lockstep.core.definition import Json, Limits, Pipeline, Upsert" in files["sales/__init__.py"]
