"""Tests that a broken definition is named by file, line and field, in one line, and that nothing is written."""

from __future__ import annotations

import pytest

from support.scenes.command_line import DEFINITION, assert_refused


@pytest.mark.parametrize(
    ("init", "words"),
    [
        ("X = Pipeline(\n", ["__init__.py:1: syntax: '(' was never closed"]),
        (
            "\n\nimport nowhere_to_be_found",
            ["__init__.py:3: ModuleNotFoundError: No module named 'nowhere_to_be_found'"],
        ),
        ("from . import neighbour", ["__init__.py:1: ImportError: cannot import name 'neighbour'"]),
        ("x = 1", ["__init__.py: a folder holds exactly one Pipeline, here are 0 (none)"]),
        (
            DEFINITION + "A = ORDERS\nB = Pipeline('two', 't', Json('a int'), Upsert('p.t', ('a',)))",
            ["here are 2 (orders, two)"],
        ),
        (DEFINITION.replace('name="orders"', 'name="order"'), ["name is 'order', and the folder's is 'orders'"]),
        (DEFINITION.replace('name="orders"', 'name="Orders"'), ["__init__.py:3: name 'Orders': lower case letters"]),
        (DEFINITION.replace("topic=", "topik="), ["__init__.py:3: TypeError:", "'topik'"]),
        (DEFINITION.replace("n int", "n integer"), ["__init__.py:6: column 'n': type 'integer' is not one of string"]),
        (DEFINITION.replace("n int", "_offset int"), ["column '_offset' is reserved"]),
        (DEFINITION.replace('key="id")', 'key="nr")'), ["__init__.py:6: format.key: 'nr' is not a column"]),
        (
            DEFINITION.replace("public.orders", "orders"),
            ["__init__.py:7: target.table 'orders': it must be schema.table"],
        ),
        (DEFINITION.replace("public.orders", "lockstep.batch"), ["the schema lockstep is the ledger's own"]),
        (DEFINITION.replace("orders.v1", "orders v1"), ["topic 'orders v1' is no legal topic name"]),
        ("from lockstep import Pipline", ["__init__.py:1: ImportError: cannot import name", "did you mean Pipeline?"]),
        ("X = Upset('public.x')", ["__init__.py:1: NameError: name 'Upset' is not defined; did you mean Upsert?"]),
        ("X = Limits()", ["NameError: name 'Limits' is not defined; from lockstep import Limits  Next:"]),
        ("import lockstep\nlockstep.Jsn()", ["__init__.py:2: AttributeError:", "did you mean Json?"]),
        ("from lockstep import Pipeline\nPipeline()", ["__init__.py:2: TypeError:", "missing", "'name', 'topic'"]),
        ("raise SystemError('out\\nof\\tluck')", ["__init__.py:1: SystemError: out of luck"]),
        ("1 / 0", ["__init__.py:1: ZeroDivisionError: division by zero"]),
    ],
)
def test_a_broken_definition_is_named_by_file_line_and_field(lockstep, init, words):
    lockstep.define(init=init)
    before = lockstep.tree()
    assert_refused(lockstep("plan", "orders"), "include/pipelines/orders/", "lockstep check orders", *words)
    assert lockstep.tree() == before


@pytest.mark.parametrize(
    ("suite", "words"),
    [
        (
            '{\n  "name": "orders",\n  oops\n}',
            "expectations.json:3:3: Expecting property name enclosed in double quotes",
        ),
        ("[]", "expectations.json: must be a JSON object"),
        ("", "expectations.json:1:1: Expecting value"),
    ],
)
def test_a_broken_suite_is_named_by_line_and_column(lockstep, suite, words):
    lockstep.define(expectations=suite)
    assert_refused(lockstep("plan", "orders"), words)


def test_a_file_that_is_no_text_is_named(lockstep):
    (lockstep.define() / "target.sql").write_bytes(b"\xff\xfe")
    assert_refused(lockstep("plan", "orders"), "orders/target.sql: cannot be read")


def test_a_folder_without_a_definition_is_named(lockstep):
    (lockstep.pipelines / "orders").mkdir()
    assert_refused(lockstep("plan", "orders"), "orders/__init__.py: missing")


@pytest.mark.parametrize("name", ["nope", "../orders", "/etc", "or ders", "Orders", ".", "a" * 64])
def test_an_unknown_pipeline_is_answered_with_the_known_ones(lockstep, name):
    lockstep.define()
    assert_refused(lockstep("status", name), "no pipeline", "there are: orders", "lockstep new")


def test_a_definition_mended_within_the_same_second_is_read_anew(lockstep):
    lockstep.define(init=DEFINITION.replace("orders.v1", "orders v1"))
    assert "no legal topic" in lockstep("plan", "orders").err
    lockstep.define(init=DEFINITION.replace("orders.v1", "orders_v1"))
    assert_refused(lockstep("plan", "orders"), "LOCKSTEP_DSN is not set")
    assert not list(lockstep.pipelines.rglob("__pycache__"))


def test_a_variable_that_names_no_folder_is_named(lockstep):
    lockstep.environ(LOCKSTEP_PIPELINES="/nowhere/at/all")
    assert_refused(lockstep("batches", "orders"), "LOCKSTEP_PIPELINES is /nowhere/at/all, which is no folder")
