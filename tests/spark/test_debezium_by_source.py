"""Tests a toy source through Kafka, Spark and Postgres, ordered by the source's log, in JSON and in Avro."""

from __future__ import annotations

import json
import random
from base64 import b64decode
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import connect
from lockstep.core.changes.person import Person
from lockstep.core.planning.bounds import AtOffsets
from lockstep.core.planning.decisions import Caller
from lockstep.core.states import Lane
from lockstep.steps.batch.run import until_idle
from lockstep.steps.proof.verify import verify
from lockstep.steps.requests.requests import NewRequest, open_request
from lockstep.targets.proof.truncated import NO_ROW_IS_OLDER
from support.fakes.captured import PLACEHOLDER, SCHEMA, CapturedRecord, CapturedTable
from support.fakes.registry import SchemaRegistry, a_record, a_registry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ME = Person("me", "a test")
HOW = 'order="source", on_truncate="apply"'
SEED = 29
NOW = datetime.now(UTC)
DDL = "id bigint primary key, name text, doc text, photo bytea, _source_order bytea"
ROW = [("id", "long"), ("name", ["null", "string"]), ("doc", ["null", "string"]), ("photo", ["null", "bytes"])]
SOURCE = [("lsn", "long"), ("sequence", "string"), ("snapshot", "string"), ("ts_ms", "long")]


def in_avro(registry: SchemaRegistry, topic: str) -> Callable[[CapturedRecord], tuple[bytes | None, bytes | None]]:
    """Returns a function from a record to its key and value in Avro."""
    fields = [
        {"name": "before", "type": ["null", a_record(*ROW)]},
        {"name": "after", "type": ["null", "R"]},
        {"name": "source", "type": a_record(*SOURCE, name="Source")},
        {"name": "op", "type": "string"},
    ]
    value_id = registry.register(f"{topic}-value", {"type": "record", "name": "Envelope", "fields": fields})
    key_id = registry.register(f"{topic}-key", a_record(("id", "long"), name="Key"))

    def written(record: CapturedRecord) -> tuple[bytes | None, bytes | None]:
        key = record.key and registry.encode(key_id, json.loads(record.key))
        if record.value is None:
            return key, None
        payload = json.loads(record.value)
        for side in ("before", "after"):
            row = payload[side]
            if row and row["photo"] is not None:
                row["photo"] = b64decode(row["photo"])
        return key, registry.encode(value_id, payload)

    return written


@pytest.mark.long
@pytest.mark.parametrize("wire", ["json", "avro"])
def test_the_target_is_the_source_at_the_end_of_every_batch_and_replay(pipeline, topic, produce, monkeypatch, wire):
    name = topic(partitions=2)
    source, pick = CapturedTable(SEED, truncates=True), random.Random(3)  # noqa: S311 - a seed that can be told is the point
    for _ in range(20):
        source.step()
    written: Callable[[CapturedRecord], tuple[bytes | None, bytes | None]] = lambda record: (record.key, record.value)  # noqa: E731
    form = f'Debezium("{SCHEMA}", units={{"photo": "base64"}}, {HOW})'
    with ExitStack() as stack:
        if wire == "avro":
            registry = stack.enter_context(a_registry())
            monkeypatch.setenv("LOCKSTEP_REGISTRY", registry.url)
            written = in_avro(registry, name)
            form = f'Debezium("{SCHEMA}", wire=Avro(subject="{name}-value"), {HOW})'
        made = pipeline(name, "", DDL, target='Upsert("TABLE", key=("id",))', form=form)
        read = 0
        for _ in range(3):
            until = read + pick.randint(5, len(source.sent) // 3)
            produce(name, [written(record) for record in source.sent[read:until]])
            made.run()
            read = until
            assert rows(made) == source.state(source.sent[:read])
        produce(name, [written(record) for record in source.sent[read:]])
        made.run()
        assert rows(made) == source.rows
        assert_it_was_about_something(source.sent)
        replayed(made)
        assert rows(made) == source.rows
        assert faults(made) == []

        made.ask(f"update public.{made.name} set _source_order = '\\x50' where id = {min(source.rows)} returning 1")
        assert NO_ROW_IS_OLDER in {check.name for check in faults(made)}
        assert len(made.ask("select 1 from lockstep.source_truncation")) > 1


def rows(loaded: Any) -> dict[int, dict[str, Any]]:
    found = loaded.ask(f"select id, name, doc, photo from public.{loaded.name}")
    return {key: {"name": name, "doc": doc, "photo": photo and bytes(photo)} for key, name, doc, photo in found}


def faults(loaded: Any) -> list[Any]:
    checks = verify(connect(loaded.dsn), Broker(loaded.kafka), load(loaded.name), deep=True)
    return [check for check in checks if not check.ok]


def replayed(loaded: Any) -> None:
    """Reads everything again."""
    at, engine, folder = loaded.parts()
    request = open_request(at.conn, at.broker, folder, NewRequest(Lane.REPLAY, AtOffsets({0: 0, 1: 0}), None), ME, NOW)
    list(until_idle(at, engine, folder, Caller("t"), wait=1, request_id=request.request_id))


def assert_it_was_about_something(sent: Sequence[CapturedRecord]) -> None:
    values = [record.value for record in sent if record.value]
    assert any(PLACEHOLDER.encode() in value for value in values)
    assert {op for op in "curd" if any(f'"op": "{op}"'.encode() in value for value in values)} == set("curd")
    assert sum(record.key is None for record in sent) > 1
    assert any(record.value is None for record in sent)
    assert any(later.lsn < earlier.lsn for earlier, later in pairwise(sent))
