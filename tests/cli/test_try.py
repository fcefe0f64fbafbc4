"""`lockstep try` says what a run would make of the lines of a file, without Kafka, the project's ledger or a JVM."""

from __future__ import annotations

import base64
import io
import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from lockstep.core.changes.tried import Record
from lockstep.core.pipeline.definition import Append, Custom, Json, Pipeline, Topics
from lockstep.core.pipeline.folder import PipelineFolder
from lockstep.dev import trial
from support.scenes.command_line import assert_refused, assert_wrong_call

pytestmark = pytest.mark.server  # a trial starts a Postgres, and a Spark where a run would
SAMPLE = b'{"id": "a", "n": 1}\n{"id": "b", "n": 2}\n{"id": "a", "n": 3}\n'
SUITE = """{"name": "orders", "expectations": [{"type": "expect_column_values_to_be_between",
    "kwargs": {"column": "n", "min_value": 0, "max_value": 2}}]}"""
NEXT = "lockstep try NAME --file SAMPLE.jsonl"


@pytest.fixture(autouse=True)
def no_spark(monkeypatch):
    def asked(*_: Any, **__: Any) -> None:
        raise AssertionError("Spark was asked for")

    monkeypatch.setattr("lockstep.engine.spark.engine.SparkEngine.__init__", asked)


@pytest.fixture
def sample(lockstep):
    """Returns `sample(content)`, which writes a file into the current folder. It has a pipeline and knows no server."""
    lockstep.define()

    def write(content: bytes = SAMPLE) -> str:
        (lockstep.home / "sample.jsonl").write_bytes(content)
        return "sample.jsonl"

    return write


def test_the_rows_of_a_file_as_json(lockstep, sample):
    said = lockstep("try", "orders", "--file", sample(), "--json")
    assert (said.code, said.err) == (0, "")
    assert said.document == {
        "pipeline": "orders",
        "records": 3,
        "lines": 3,
        "engine": "driver",
        "rows": [
            {"line": 2, "table": "public.orders", "values": {"id": "b", "n": 2}},
            {"line": 3, "table": "public.orders", "values": {"id": "a", "n": 3}},
        ],
        "rejects": [],
        "deletions": [],
        "superseded": [{"line": 1, "table": "public.orders", "by": 3}],
        "filtered": [],
        "verdict": {"ok": True, "refusals": [], "expectations": []},
    }


def test_the_same_for_people(lockstep, sample):
    said = lockstep("try", "orders", "--file", sample())
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines() == [
        "orders: 3 records, read by the driver, without Spark",
        "",
        "public.orders: 2 rows",
        "  line  id  n",
        "     2  b   2",
        "     3  a   3",
        "",
        "line 1: superseded by line 3",
        "",
        "a run would commit: 2 rows, 0 rejects",
    ]


def test_a_batch_that_the_suite_refuses_ends_with_1_and_the_reason(lockstep, sample):
    lockstep.define(expectations=SUITE)
    said = lockstep("try", "orders", "--file", sample())
    assert (said.code, said.err) == (1, "")
    assert said.out.splitlines()[2] == "public.orders: 2 rows, if it were committed"
    *_, expectation, refusal, end = said.out.splitlines()
    assert expectation == "NO  expect_column_values_to_be_between(n): 1 row"
    assert refusal.startswith("refused: expect_column_values_to_be_between on n failed for 1 rows")
    assert refusal.endswith("offset 3")
    assert end == "a run would commit nothing"


def test_standard_input_and_a_limit(lockstep, sample, monkeypatch):
    sample()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(SAMPLE)))
    document = lockstep("try", "orders", "--file", "-", "--limit", "2", "--json").document
    assert (document["records"], document["lines"]) == (2, 3)
    assert [row["values"] for row in document["rows"]] == [{"id": "a", "n": 1}, {"id": "b", "n": 2}]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(SAMPLE)))
    said = lockstep("try", "orders", "--file", "-", "--limit", "1")
    assert said.out.startswith("orders: 1 record of 3 lines,")


def test_nothing_is_left_and_no_address_is_needed(lockstep, sample):
    lockstep.environ(LOCKSTEP_DSN="postgresql://nobody@127.0.0.1:1/none", LOCKSTEP_KAFKA="127.0.0.1:1")
    before = lockstep.tree()
    assert lockstep("try", "orders", "--file", sample()).code == 0
    assert lockstep.tree().keys() == before.keys()
    assert list((lockstep.home / ".lockstep").iterdir()) == []


BAD_FILES = {
    "an empty file": (b"", (), ("sample.jsonl: it holds no line",)),
    "a binary file": (b"\x7fELF\x02\x01\x01\x00\x00\n", (), ("sample.jsonl:1: it holds a NUL byte", "value_base64")),
    "a line that is no JSON, with its key": (SAMPLE + b"no json\n", ("--key", "id"), ("sample.jsonl:4: no JSON object",)),
    "a line that is no JSON, as an envelope": (
        b'{"value": null}\nno json\n', ("--envelope",), ("sample.jsonl:2: no JSON",),
    ),
    "no envelope": (SAMPLE, ("--envelope",), ("sample.jsonl:1: no object with value",)),
    "a field that no envelope has": (b'{"value": 1, "valeu": 2}', ("--envelope",), ("sample.jsonl:1: field 'valeu'",)),
    "no base64": (b'{"value_base64": "a!"}', ("--envelope",), ("sample.jsonl:1: value_base64 is no base64",)),
    "a value twice": (b'{"value": 1, "value_base64": "YQ=="}', ("--envelope",), ("value and value_base64 are both",)),
    "headers that are none": (b'{"value": 1, "headers": [1]}', ("--envelope",), ("headers is no object",)),
    "a time without a zone": (
        b'{"value": 1, "timestamp": "2026-05-01T12:00:00"}', ("--envelope",), ("timestamp '2026-05-01T12:00:00' is no",),
    ),
    "a time that is none": (b'{"value": 1, "timestamp": 3}', ("--envelope",), ("timestamp '3' is no ISO 8601 time",)),
    "half a surrogate pair": (b'{"value": "\\ud800"}', ("--envelope",), ("value is no text that UTF-8 can hold",)),
}  # fmt: skip


@pytest.mark.parametrize(("content", "options", "words"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_one_line(lockstep, sample, monkeypatch, content, options, words):
    monkeypatch.setattr("lockstep.dev.scratch.scratch_ledger", None)  # nothing is started for it
    said = lockstep("try", "orders", "--file", sample(content), *options)
    assert_refused(said, *words, "nothing was tried", NEXT)


def test_a_file_that_is_not_there_is_one_line(lockstep, sample):
    assert sample
    assert_refused(lockstep("try", "orders", "--file", "none.jsonl"), "none.jsonl: cannot be read: No such file", NEXT)
    assert_refused(lockstep("try", "orders", "--file", "."), ".: cannot be read: Is a directory", NEXT)


def test_a_pipeline_that_is_not_there_is_one_line(lockstep, sample):
    assert_refused(lockstep("try", "ordres", "--file", sample()), "ordres", "orders")


def test_a_definition_that_does_not_load_is_one_line(lockstep, sample):
    lockstep.define(init="from lockstep.core.pipeline.definition import Pipeline\nP = Pipeline(name=1 / 0)\n")
    assert_refused(
        lockstep("try", "orders", "--file", sample()), "__init__.py:2", "ZeroDivisionError", "lockstep check"
    )


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("create table public.orders (nothing", ("target.sql is refused: syntax error",)),
        ("create table public.others (id text)", ("target.sql does not give a table public.orders",)),
        (
            "create table public.orders (id text primary key, _stream int4, _offset int8, _ordinal int4, _batch int8)",
            ("target public.orders has no column n",),
        ),
    ],
)
def test_a_target_that_does_not_fit_is_one_line(lockstep, sample, target, words):
    lockstep.define(target=target)
    assert_refused(lockstep("try", "orders", "--file", sample()), *words, "Next: ")


@pytest.mark.parametrize("kind", ["Avro", "Protobuf", "Json"])
def test_records_of_bytes_need_an_envelope_and_a_registry(lockstep, sample, kind):
    init = """
from lockstep.core.pipeline.definition import Avro, Pipeline, Upsert
P = Pipeline(name="orders", topic="o", format=Avro("id string, n int"), target=Upsert("public.orders", key=("id",)))
"""
    init = init.replace("Avro", kind)
    lockstep.define(init=init.replace('int")', 'int", registry=True)') if kind == "Json" else init)
    assert_refused(lockstep("try", "orders", "--file", sample()), "sample.jsonl:1: this pipeline's records are bytes")
    coded = base64.b64encode(b"\0\0\0\0\1").decode()
    name = sample(json.dumps({"value_base64": coded}).encode())
    said = lockstep("try", "orders", "--file", name, "--envelope")
    assert_refused(
        said, f"records are {kind}, and LOCKSTEP_REGISTRY names no schema registry", "export LOCKSTEP_REGISTRY"
    )


def test_wrong_calls(lockstep, sample):
    name = sample()
    assert_wrong_call(lockstep("try", "orders"), "--file")
    assert_wrong_call(lockstep("try", "orders", "--file", name, "--limit", "0"), "--limit")
    assert_wrong_call(lockstep("try", "orders", "--file", name, "--key", "id", "--envelope"), "--key")


def test_the_columns_value_becomes_the_key_and_the_line_stays_byte_for_byte(sample):
    records, lines = trial.sample(sample(), "id", envelope=False, most=2, says_bytes=False)
    assert lines == 3
    assert records == tuple(Record(line, key) for line, key in zip(SAMPLE.splitlines(), (b"a", b"b"), strict=False))


def test_an_envelope_is_a_record(sample):
    line = {
        "key": "a", "value": {"id": "ü", "n": 1.5}, "headers": {"h": "1", "none": None}, "timestamp": "2026-05-01T12:00:00Z",
    }  # fmt: skip
    content = [json.dumps(line), '{"key_base64": "/w==", "value_base64": "AAE="}', '{"key": 7, "value": null}']
    records, _ = trial.sample(sample("\n".join(content).encode()), None, envelope=True, most=None, says_bytes=True)
    first, second, third = records
    assert json.loads(first.value) == line["value"]
    assert (first.key, first.headers) == (b"a", (("h", b"1"), ("none", None)))
    assert first.timestamp.isoformat() == "2026-05-01T12:00:00+00:00"
    assert (second.key, second.value, second.headers, second.timestamp) == (b"\xff", b"\0\1", (), None)
    assert (third.key, third.value) == (b"7", None)


@pytest.mark.parametrize(
    ("form", "transform", "why"),
    [
        (Json("id string"), "def transform(records):\n    return records\n", "a transform makes the rows"),
        (Custom("id string"), None, "a record of Custom may end its reader"),
    ],
)
def test_why_spark_starts_is_said_before_it_does(tmp_path, form, transform, why):
    folder = PipelineFolder(Pipeline("p", "t", form, Append("public.p")), tmp_path, transform, None, TABLE)
    told: list[str] = []
    with pytest.raises(AssertionError, match="Spark was asked for"):
        trial.try_records(folder, [Record(b"no JSON")], say=told.append)
    assert told[0] == "starting a Postgres of the trial's own"
    assert told[-1] == f"starting Spark: {why}"


TABLE = """create table public.p (id text, _stream int4 not null, _offset int8 not null, _ordinal int4 not null,
    _batch int8 not null, primary key (_stream, _offset, _ordinal))"""


@pytest.mark.long
@pytest.mark.parametrize("topic", [("eu", "us"), Topics("e.*")], ids=["two", "a pattern"])
def test_records_for_a_pipeline_of_several_topics_are_those_of_one(tmp_path, topic):
    made = Pipeline("p", topic, Json("id string"), Append("public.p"))
    found = trial.try_records(PipelineFolder(made, tmp_path, None, None, TABLE), [Record(b'{"id": "a"}')])
    assert [row["id"] for row in found.rows_of("public.p")] == ["a"]
