"""The hostile set through Kafka, Spark and Postgres: each record is a row or a reject, in one batch that commits."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer

import hostile
from lockstep.adapters.folders import load
from lockstep.adapters.kafka import Broker
from lockstep.adapters.postgres import connect
from lockstep.steps.verify import verify

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


@pytest.mark.parametrize("form", FORMS)
def test_every_hostile_record_is_a_row_or_a_reject(pipeline, topic, kafka, tmp_path, form):
    format_, more, ddl, least = FORMS[form]
    name = topic(partitions=1)
    records = hostile.records()
    loaded = pipeline(name, "", ddl, form=format_, max_reject_share="1.0", **more)
    (tmp_path / "pipelines" / loaded.name / "decode.py").write_text(DECODE)
    producer = Producer({"bootstrap.servers": kafka, "compression.type": "zstd"})
    for key, value, headers in records:
        producer.produce(name, value, key, 0, headers=headers, timestamp=1_767_225_600_000)
    assert producer.flush(60) == 0

    report = loaded.run()

    (done,) = report.ranges
    assert done.delivered == len(records)
    assert done.written + done.rejected == len(records)
    assert done.written >= least
    rows = loaded.ask(f"select _offset from public.{loaded.name}")
    rejects = loaded.ask('select "offset", reason from lockstep.reject')
    assert sorted([*rows, *((offset,) for offset, _ in rejects)]) == [(n,) for n in range(len(records))]
    assert all(reason.strip() for _, reason in rejects)
    checks = verify(connect(loaded.dsn), Broker(loaded.kafka), load(loaded.name), deep=True)
    assert [check for check in checks if not check.ok] == []
    if form.startswith("raw"):
        stored = loaded.ask(f"select body, message_key, made, part, place from public.{loaded.name} order by _offset")
        at = datetime(2026, 1, 1, tzinfo=UTC)
        plain = [tuple(bytes(cell) if isinstance(cell, memoryview) else cell for cell in row) for row in stored]
        taken = [offset for (offset,) in sorted(rows)]
        assert plain == [(records[n][1], records[n][0], at, 0, n) for n in taken]
