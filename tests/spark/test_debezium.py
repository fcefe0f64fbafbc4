"""Tests change records through Kafka, Spark and Postgres: the target is the source's table."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import connect
from lockstep.core.changes.tried import Deletion, Record, Reject
from lockstep.core.errors import BadData, BadDefinition
from lockstep.core.pipeline.definition import Debezium, Pipeline, Upsert
from lockstep.core.pipeline.folder import PipelineFolder
from lockstep.formats import decoder_of
from lockstep.formats.debezium.decoder import ChangeDecoder
from lockstep.steps.proof.verify import verify
from lockstep.testing import tried
from support.fakes.captured import PLACEHOLDER, SCHEMA, CapturedTable
from support.fakes.registry import a_record, a_registry
from support.inputs.raw_records import raw_batch

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
FORM = f'Debezium("{SCHEMA}", units={{"photo": "base64"}})'
DDL = "id bigint primary key, name text, doc text, photo bytea"
KEY = b'{"id": 1}'


def change(op: str, after: dict[str, Any] | None) -> bytes:
    return json.dumps({"op": op, "source": {}, "before": None, "after": after}).encode()


def rows(loaded) -> dict[int, dict[str, Any]]:
    found = loaded.ask(f"select id, name, doc, photo from public.{loaded.name}")
    return {key: {"name": name, "doc": doc, "photo": photo and bytes(photo)} for key, name, doc, photo in found}


def faults(loaded) -> list:
    checks = verify(connect(loaded.dsn), Broker(loaded.kafka), load(loaded.name), deep=True)
    return [check for check in checks if not check.ok]


def test_spark_and_a_second_reading_judge_every_record_alike():
    source = CapturedTable(7, schemas=True)
    for _ in range(30):
        source.step()
    odd = [(KEY, b"{"), (KEY, b'{"op": "m", "source": {}}'), (b"?", None), (KEY, change("c", {"id": "x"}))]
    given = [*((record.key, record.value) for record in source.sent), *odd]
    format_ = Debezium(SCHEMA, units={"photo": "base64"})
    pipeline = Pipeline("p", "t", format_, Upsert("public.p", key=("id",)))
    folder = PipelineFolder(pipeline, Path(), None, None, None)
    raw = raw_batch([value for _, value in given], [key for key, _ in given])
    table = [row for made in decoder_of(folder, None, keeps_bytes=True)([raw]) for row in made.to_pylist()]

    judge = ChangeDecoder("p", format_)
    outcomes = [judge(key, value, None) for key, value in given]
    names = ("id", "name", "doc", "photo", "_unavailable")
    assert [tuple(row[name] for name in names) for row in table] == [
        tuple(outcome.values.get(name) for name in names) for outcome in outcomes
    ]
    assert [(row["_deleted"], row["_reason"], row["_filtered"]) for row in table] == [
        (outcome.deleted, outcome.reason, outcome.filtered) for outcome in outcomes
    ]
    assert {row["_unavailable"] for row in table} >= {None, "doc", "photo", "doc,photo"}


@pytest.mark.parametrize("guarantee", ["PerBatch()", "PerPartition()"])
def test_the_target_is_the_source_behind_every_batch(pipeline, topic, produce, guarantee):
    name = topic(partitions=2)
    more = {} if guarantee == "PerBatch()" else {"guarantee": guarantee}
    made = pipeline(name, "", DDL, target='Upsert("TABLE", key=("id",))', form=FORM, **more)
    source = CapturedTable(0)
    for _ in range(3):
        produce(name, [(record.key, record.value) for record in [*source.step(), *source.step()]])
        made.run()
        assert rows(made) == source.rows
    assert source.rows
    assert any(record.value and PLACEHOLDER.encode() in record.value for record in source.sent)
    assert faults(made) == []


def test_a_value_that_was_spoiled_is_found_also_where_its_record_does_not_have_it(pipeline, topic, produce):
    name = topic(partitions=1)
    made = pipeline(name, "", DDL, target='Upsert("TABLE", key=("id",))', form=FORM)
    produce(name, [(KEY, change("c", {"id": 1, "name": "a", "doc": "first"}))])
    made.run()
    produce(name, [(KEY, change("u", {"id": 1, "name": "b", "doc": PLACEHOLDER}))])
    made.run()
    assert rows(made) == {1: {"name": "b", "doc": "first", "photo": None}}
    assert faults(made) == []
    for column, value in ("name", "b"), ("doc", "first"):
        made.ask(f"update public.{made.name} set {column} = 'spoiled' returning 1")
        (wrong,) = faults(made)
        assert wrong.name.endswith("each key's row is what its newest record says")
        assert f"{column} is spoiled, its record says {value}" in wrong.detail
        made.ask(f"update public.{made.name} set {column} = '{value}' returning 1")


KEEPS = "def transform(records):\n    return records.where('name != \"hidden\"')\n"
DROPS = "def transform(records):\n    return records.select('_stream', '_offset', 'id', 'name', 'doc', 'photo')\n"


def test_a_transform_hands_on_what_a_row_keeps(pipeline, topic, produce):
    name = topic(partitions=1)
    made = pipeline(name, "", DDL, target='Upsert("TABLE", key=("id",))', form=FORM, transform=KEEPS)
    first, second = {"id": 1, "name": "a", "doc": "first"}, {"id": 1, "name": "b", "doc": PLACEHOLDER}
    produce(name, [(KEY, change("c", first)), (b'{"id": 2}', change("c", {"id": 2, "name": "hidden"}))])
    made.run()
    produce(name, [(KEY, change("u", second)), (b'{"id": 2}', None)])
    made.run()
    assert rows(made) == {1: {"name": "b", "doc": "first", "photo": None}}


def test_a_transform_that_drops_it_is_refused(pipeline, topic):
    made = pipeline(topic(partitions=1), "", DDL, target='Upsert("TABLE", key=("id",))', form=FORM, transform=DROPS)
    _, engine, _ = made.parts()
    with pytest.raises(BadDefinition, match="the transform drops _unavailable, which says what a row keeps"):
        engine.columns()


HEAD = "from pyspark.sql import functions as F\n\n\ndef transform(records):\n    return "


def expressions() -> list[str]:
    """Returns the page's two expressions: of a column that is renamed, and of one that is dropped."""
    return re.findall(r"^    (records\..*_unavailable.*)$", PAGE.read_text(), re.MULTILINE)


def test_a_transform_that_renames_or_drops_a_column_says_so_as_on_the_page(pipeline, topic, produce):
    name = topic(partitions=1)
    renames, drops = (each.replace("notes", "doc") for each in expressions())
    ddl = "id bigint primary key, name text, remark text"
    both = HEAD + drops.replace("records", f"({renames})", 1) + "\n"
    made = pipeline(name, "", ddl, target='Upsert("TABLE", key=("id",))', form=FORM, transform=both)
    produce(name, [(KEY, change("c", {"id": 1, "name": "a", "doc": "first", "photo": "AQ=="}))])
    made.run()
    left_open = {"doc": PLACEHOLDER, "photo": b64encode(PLACEHOLDER.encode()).decode()}
    produce(name, [(KEY, change("u", {"id": 1, "name": "b"} | left_open))])
    made.run()
    assert made.ask(f"select id, name, remark from public.{made.name}") == [(1, "b", "first")]


def test_a_transform_that_renames_a_column_alone_is_refused_and_the_row_stays(pipeline, topic, produce):
    name = topic(partitions=1)
    renames = HEAD + "records.withColumnRenamed('doc', 'remark')\n"
    ddl = "id bigint primary key, name text, remark text, photo bytea"
    made = pipeline(name, "", ddl, target='Upsert("TABLE", key=("id",))', form=FORM, transform=renames)
    produce(name, [(KEY, change("c", {"id": 1, "name": "a", "doc": "first"}))])
    made.run()
    produce(name, [(KEY, change("u", {"id": 1, "name": "b", "doc": PLACEHOLDER}))])
    with pytest.raises(BadData, match=f"public.{made.name}: the record at {name}-0 offset 1 leaves doc open"):
        made.run()
    assert made.ask(f"select id, name, remark from public.{made.name}") == [(1, "a", "first")]


def test_a_truncation_stops_the_batch_at_its_offset(pipeline, topic, produce):
    name = topic(partitions=1)
    made = pipeline(name, "", DDL, target='Upsert("TABLE", key=("id",))', form=FORM)
    produce(name, [(KEY, change("c", {"id": 1, "name": "a"})), (None, change("t", None))])
    with pytest.raises(
        BadData, match=r"the source's table was truncated, and rows stay here: after the skip, .* partition 0 offset 1"
    ) as no:
        made.run()
    assert no.value.next_command == f"lockstep skip {made.name} --to 0:2 --reason ..."
    assert rows(made) == {}


def test_records_are_tried_as_a_run_would_take_them(pipeline, topic):
    made = pipeline(topic(partitions=1), "", DDL, target='Upsert("TABLE", key=("id",))', form=FORM)
    given = [
        Record(change("c", {"id": 1, "name": "a", "doc": "first"}), KEY),
        Record(change("u", {"id": 1, "name": "b", "doc": PLACEHOLDER}), KEY),
        Record(b'{"op": "m", "source": {}}'),
        Record(change("c", {"id": 2, "name": "gone"}), b'{"id": 2}'),
        Record(None, b'{"id": 2}'),
        Record(b"5", KEY),
    ]

    found = tried(made.name, given)

    assert [dict(row) for row in found.rows] == [{"id": 1, "name": "b", "doc": "first", "photo": None}]
    assert found.deletions == [Deletion(5, f"public.{made.name}", {"id": 2})]
    assert found.filtered == [3]
    assert found.rejects == [Reject(6, "no change record: not a JSON object", KEY, b"5")]


def test_avro_comes_to_the_same_table(pipeline, topic, produce, monkeypatch):
    name = topic(partitions=1)
    row = a_record(
        ("id", "long"), ("name", ["null", "string"]), ("doc", ["null", "string"]), ("photo", ["null", "bytes"])
    )
    fields = [
        {"name": "before", "type": ["null", row]},
        {"name": "after", "type": ["null", "R"]},
        {"name": "source", "type": a_record(("lsn", "long"), name="Source")},
        {"name": "op", "type": "string"},
    ]
    with a_registry() as registry:
        monkeypatch.setenv("LOCKSTEP_REGISTRY", registry.url)
        value_id = registry.register(f"{name}-value", {"type": "record", "name": "Envelope", "fields": fields})
        key_id = registry.register(f"{name}-key", a_record(("id", "long"), name="Key"))

        def sent(op: str, key: int, after: dict[str, Any] | None) -> tuple[bytes, bytes]:
            value = {"op": op, "before": None, "after": after, "source": {"lsn": 1}}
            return registry.encode(key_id, {"id": key}), registry.encode(value_id, value)

        form = f'Debezium("{SCHEMA}", wire=Avro(subject="{name}-value"))'
        made = pipeline(name, "", DDL, target='Upsert("TABLE", key=("id",))', form=form)
        first = {"id": 1, "name": "a", "doc": "first", "photo": b"\x01"}
        produce(name, [sent("c", 1, first), sent("c", 2, first | {"id": 2})])
        made.run()
        produce(name, [sent("u", 1, first | {"name": "b", "doc": PLACEHOLDER, "photo": PLACEHOLDER.encode()})])
        produce(name, [(registry.encode(key_id, {"id": 2}), None)])
        made.run()
        assert rows(made) == {1: {"name": "b", "doc": "first", "photo": b"\x01"}}
        assert faults(made) == []
