"""Tests that `lockstep new` makes a pipeline that works at once, or writes nothing."""

from __future__ import annotations

import pytest

from lockstep.adapters import folders
from lockstep.cli.pipelines import defining
from lockstep.core.pipeline.definition import Avro, Json, Protobuf, Raw, Upsert
from support.scenes.command_line import assert_refused, assert_wrong_call

MANY = ", ".join(["id int", *(f"c{n} string" for n in range(20))])


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
    "options",
    [
        (),
        ("--columns", "id string, user bigint, at timestamp", "--key", "id"),
        ("--format", "avro", "--columns", "id string, user bigint", "--key", "id"),
        ("--format", "protobuf", "--columns", "id string, user bigint", "--key", "id"),
        ("--format", "json-schema", "--columns", "id string, user bigint", "--key", "id"),
        ("--format", "raw"),
    ],
    ids=["append", "upsert", "avro", "protobuf", "json-schema", "raw"],
)
def test_a_new_pipeline_works_as_it_is(lockstep, database, options):
    lockstep.environ(LOCKSTEP_DSN=database)
    said = lockstep("new", "sales", "--topic", "sales.v1", *options)
    assert (said.code, said.err) == (0, "")
    assert ("LOCKSTEP_REGISTRY must name" in said.out) == bool({"avro", "protobuf", "json-schema"} & {*options})
    assert said.out.endswith("Next: lockstep check sales, then lockstep migrate sales, then lockstep run sales\n")
    assert sorted(lockstep.tree()) == [
        "sales/__init__.py",
        "sales/expectations.json",
        "sales/target.sql",
    ]  # and no transform: the decoded columns go the shorter way, without a JVM
    assert lockstep("check", "sales").out.startswith("sales: ok;")
    assert lockstep("migrate", "sales").code == 0


def test_where_no_suite_can_be_judged_a_new_pipeline_has_none_and_works(lockstep, database, monkeypatch):
    monkeypatch.setattr(defining, "is_installed", lambda _: False)
    lockstep.environ(LOCKSTEP_DSN=database)

    said, shown = (
        lockstep("new", "sales", "--topic", "sales.v1"),
        lockstep("new", "parts", "--topic", "parts.v1", "--json"),
    )

    assert sorted(lockstep.tree()) == [
        f"{name}/{file}" for name in ("parts", "sales") for file in ("__init__.py", "target.sql")
    ]
    assert (
        "expectations.json is left out: Great Expectations is not installed. "
        "pip install 'lockstep-kafka[expectations]' brings it."
    ) in said.out.splitlines()
    assert shown.document["files"] == ["__init__.py", "target.sql"]
    assert lockstep("check", "sales").out.startswith("sales: ok;")


def test_a_new_definition_says_what_was_asked_for(lockstep):
    columns = "id string, user string, amount decimal( 12 , 2 ), " + ", ".join(f"column_{n} double" for n in range(20))
    lockstep("new", "sales", "--topic", "sales.v1", "--columns", columns, "--key", "id", "--table", "shop.order")
    pipeline = folders.load("sales").pipeline
    assert (pipeline.topic, pipeline.target) == ("sales.v1", Upsert("shop.order", ("id",)))
    assert pipeline.format == Json(columns.replace(" 12 , 2 ", "12,2"), key="id")
    files = lockstep.tree()
    assert b'"amount" numeric(12,2)' in files["sales/target.sql"]
    assert max(len(line) for line in files["sales/__init__.py"].splitlines()) <= 120
    assert b"from lockstep import Json, Limits, Pipeline, Upsert" in files["sales/__init__.py"]


@pytest.mark.parametrize(
    ("options", "format_", "columns"),
    [
        (("--format", "json"), Json("id string, at timestamp"), b'"at" timestamptz'),
        (("--format", "avro", "--columns", "id string, n int"), Avro("id string, n int"), b'"n" int'),
        (("--format", "avro", "--key", "id"), Avro("id string, at timestamp", key="id"), b'"id" text primary key'),
        (
            ("--format", "protobuf", "--key", "id"),
            Protobuf("id string, at timestamp", key="id"),
            b'"id" text primary key',
        ),
        (
            ("--format", "json-schema"),
            Json("id string, at timestamp", registry=True),
            b'"at" timestamptz',
        ),
        (
            (
                "--format",
                "json-schema",
                "--key",
                "id",
                "--columns",
                MANY,
            ),
            Json(MANY, key="id", registry=True),
            b'"c19" text',
        ),
        (("--format", "raw"), Raw("value"), b'"value" bytea'),
    ],
    ids=lambda case: " ".join(case) if isinstance(case, tuple) else "",
)
def test_each_format_has_its_definition_and_its_table(lockstep, options, format_, columns):
    assert lockstep("new", "sales", "--topic", "sales.v1", *options).code == 0
    assert folders.load("sales").pipeline.format == format_
    files = lockstep.tree()
    assert columns in files["sales/target.sql"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--format", "xml"), "'xml' is not one of 'json', 'avro', 'protobuf', 'json-schema', 'raw'"),
        (("--format", "raw", "--columns", "id string"), "--columns: raw bytes have one column, value"),
        (("--format", "raw", "--key", "id"), "--key: raw bytes have one column, value"),
    ],
    ids=lambda case: " ".join(case) if isinstance(case, tuple) else "",
)
def test_what_a_format_does_not_have_is_a_wrong_call_and_nothing_is_written(lockstep, options, words):
    assert_wrong_call(lockstep("new", "sales", "--topic", "sales.v1", *options), words)
    assert lockstep.tree() == {}


@pytest.mark.parametrize(
    ("name", "good"),
    [("class", "class_records"), ("my-sales", "my_sales"), ("2024sales", "p_2024sales"), ("sales.v1", "sales_v1")],
)
def test_a_name_that_cannot_be_is_refused_with_one_that_can(lockstep, name, good):
    assert_refused(
        lockstep("new", name, "--topic", "t"), f"name {name!r}: ", f"Next: lockstep new {good} --topic TOPIC"
    )
    assert lockstep("new", good, "--topic", "t").code == 0
