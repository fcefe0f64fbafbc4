"""Tests the hostile set through Kafka, Spark and Postgres: each record is a row or a reject of one batch."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import connect
from lockstep.context.systems import configured_registry
from lockstep.steps.proof.verify import verify
from support.fakes.registry import a_registry
from support.inputs import hostile
from support.oracles.plain_decoders import DOUBT, REJECT, avro_row, json_row

DECODE = """
import json

def decode(key, value, headers):
    try:
        made = json.loads(value)
        return {"id": str(made["id"]), "n": made.get("n")}
    except (AttributeError, KeyError, RecursionError, TypeError):
        raise ValueError("not a record of ours") from None
"""
# A form → format, what else the definition says, the target's columns, and how many of the set must be rows at least.
FORMS = {
    "raw in an envelope": (
        'Raw("body")',
        {
            "envelope": 'Envelope(key="message_key binary", timestamp="made", headers="headers", '
            'partition="part", offset="place")'
        },
        "body bytea, message_key bytea, made timestamptz, headers text, part int, place bigint",
        400,
    ),
    "own code": ('Custom("id string, n int")', {}, "id text, n int", 100),
}
COLUMNS = "id string, n int, amount decimal(12,2), at timestamp, ok boolean"
DDL = "id text, n int, amount numeric(12,2), at timestamptz, ok boolean"


def accounted(loaded, kafka: str, name: str, records: list[hostile.Record]) -> dict[int, str]:
    """Runs the records as one batch that commits, each a row or a reject.

    Returns the reasons of rejects by offset.
    """
    producer = Producer({"bootstrap.servers": kafka, "compression.type": "zstd"})
    for key, value, headers in records:
        producer.produce(name, value, key, 0, headers=headers, timestamp=1_767_225_600_000)
    assert producer.flush(60) == 0

    (done,) = loaded.run().ranges

    assert (done.delivered, done.written + done.rejected) == (len(records), len(records))
    rows = [offset for (offset,) in loaded.ask(f"select _offset from public.{loaded.name}")]
    rejects = dict(loaded.ask('select "offset", reason from lockstep.reject'))
    assert sorted([*rows, *rejects]) == list(range(len(records)))
    assert all(reason.strip() for reason in rejects.values())
    return rejects


def complaints(loaded) -> list:
    checks = verify(
        connect(loaded.dsn), Broker(loaded.kafka), load(loaded.name), deep=True, registry=configured_registry()
    )
    return [check for check in checks if not check.ok]


@pytest.mark.parametrize("form", FORMS)
def test_every_hostile_record_is_a_row_or_a_reject(pipeline, topic, kafka, tmp_path, form):
    format_, more, ddl, least = FORMS[form]
    name = topic(partitions=1)
    records = hostile.records()
    loaded = pipeline(name, "", ddl, form=format_, max_reject_share="1.0", **more)
    (tmp_path / "pipelines" / loaded.name / "decode.py").write_text(DECODE)

    rejects = accounted(loaded, kafka, name, records)

    rows = loaded.ask(f"select _offset from public.{loaded.name}")
    assert len(rows) == len(records) - len(rejects) >= least
    assert complaints(loaded) == []
    if form.startswith("raw"):
        stored = loaded.ask(f"select body, message_key, made, part, place from public.{loaded.name} order by _offset")
        at = datetime(2026, 1, 1, tzinfo=UTC)
        plain = [tuple(bytes(cell) if isinstance(cell, memoryview) else cell for cell in row) for row in stored]
        taken = [offset for (offset,) in sorted(rows)]
        assert plain == [(records[n][1], records[n][0], at, 0, n) for n in taken]


@pytest.mark.parametrize("way", ["as it is", "with a transform"])
def test_every_hostile_record_of_json_is_the_row_that_it_says_or_a_reject(pipeline, topic, kafka, way):
    name = topic(partitions=1)
    records = hostile.records()
    assert len(records) >= 400
    transform = "def transform(records):\n    return records\n" if way == "with a transform" else None
    loaded = pipeline(name, COLUMNS, DDL, transform=transform, max_reject_share="1.0")

    rejects = accounted(loaded, kafka, name, records)

    stored = {
        offset: row for offset, *row in loaded.ask(f"select _offset, id, n, amount, at, ok from public.{loaded.name}")
    }
    sure = {offset: said for offset, (_, value, _) in enumerate(records) if (said := json_row(value)) is not DOUBT}
    assert len(sure) > 350
    assert {offset for offset, said in sure.items() if said is REJECT} == sure.keys() & rejects.keys()
    said = {offset: list(row.values()) for offset, row in sure.items() if row is not REJECT}
    assert {offset: stored[offset] for offset in said} == said
    assert len(said) > 150
    assert complaints(loaded) == []


def test_every_hostile_record_of_avro_is_the_row_that_it_says_or_a_reject(pipeline, topic, kafka, monkeypatch):
    name = topic(partitions=1)
    with a_registry() as server:
        monkeypatch.setenv("LOCKSTEP_REGISTRY", server.url)
        schema_id = server.register(name, hostile.AVRO)
        flat_id = server.register(name, hostile.FLAT_AVRO)
        records = hostile.avro_records(schema_id) + hostile.flat_avro_records(flat_id)
        assert len(records) >= 700
        loaded = pipeline(
            name,
            "",
            "id text, n int, amount numeric(9,2)",
            form='Avro("id string, n int, amount decimal(9,2)")',
            max_reject_share="1.0",
        )

        rejects = accounted(loaded, kafka, name, records)

        rows = loaded.ask(f"select _offset, id, n, amount from public.{loaded.name} order by 1")
        said = {offset: avro_row(body, schema_id, flat_id) for offset, (_, body, _) in enumerate(records)}
        assert {offset for offset, row in said.items() if row is REJECT} == rejects.keys()
        assert rows == [(offset, *row.values()) for offset, row in said.items() if row is not REJECT]
        assert len(rows) >= 60
        assert complaints(loaded) == []
