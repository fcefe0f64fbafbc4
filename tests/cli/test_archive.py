"""Tests that a topic with short retention is archived, deleted, and read again below its log start, to the byte."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource

from lockstep.cli.exits import Exit
from lockstep.context.systems import engine_for
from support.scenes.odd_logs import alter, delete_records, high_end, log_start

HOUR = 3_600_000
ROWS = "select id, n, _stream, _offset, _ordinal from public.drill order by _stream, _offset, _ordinal"
ARCHIVED = "select lower(offsets), upper(offsets), records, path, sha256 from lockstep.archived order by stream_id, offsets"


@pytest.fixture(autouse=True)
def _own_engine(here, monkeypatch):
    """Has batches done by the product's own readers, in this process."""
    for door in ("replaying", "running"):
        monkeypatch.setattr(f"lockstep.cli.batches.{door}.engine_for", engine_for)


def archiving(here, tmp_path, within="7d", **settings):
    """Names an archive in the drill's definition, over a topic that keeps records for a day."""
    here.rewrite("import Append,", "import Append, Archive,")
    place = tmp_path / "archive"
    here.rewrite("limits=Limits", f'archive=Archive("file://{place}", within="{within}"), limits=Limits')
    settings = {"retention_ms": 24 * HOUR} | settings
    pairs = [(name.replace("_", "."), str(value)) for name, value in settings.items()]
    alter(here.drill.kafka, ConfigResource.Type.TOPIC, here.drill.topic, pairs)
    return place


def produced(here, count, partition=0, hours_ago=1.0):
    producer = Producer({"bootstrap.servers": here.drill.kafka})
    for n in range(count):
        stamp = int(time.time() * 1000 - hours_ago * HOUR)
        producer.produce(
            here.drill.topic, json.dumps({"id": f"a{n}", "n": n}), f"k{n}", partition=partition, timestamp=stamp
        )
    producer.flush(20)


def test_what_is_archived_is_replayed_below_log_start_and_what_is_not_is_lost(here, lockstep, tmp_path):
    place = archiving(here, tmp_path)
    assert lockstep("run", "drill", "--until-idle").code == Exit.DONE
    before = here.drill.ask(ROWS)
    ends = [high_end(here.drill.kafka, here.drill.topic, p) for p in range(3)]

    said = lockstep("archive", "drill", "--json")

    assert (said.code, said.document["place"]) == (Exit.DONE, f"file://{place}")
    assert [(f["from_offset"], f["until_offset"], f["records"]) for f in said.document["copied"]] == [
        (0, end, end) for end in ends
    ]
    assert lockstep("archive", "drill", "--json").document["copied"] == []
    for p, end in enumerate(ends):
        delete_records(here.drill.kafka, here.drill.topic, end, p)
    assert [log_start(here.drill.kafka, here.drill.topic, p) for p in range(3)] == ends
    here.drill.ask("delete from public.drill where mod(_offset, 3) = 0 returning 1")
    damaged = lockstep("verify", "drill", "--deep")
    assert damaged.code == Exit.REFUSED
    assert "coordinates and contents WRONG" in damaged.out

    replayed = lockstep("replay", "drill", "--from", "0:0,1:0,2:0", "--reason", "rows were deleted")

    assert (replayed.code, here.drill.ask(ROWS)) == (Exit.DONE, before)
    verified = lockstep("verify", "drill", "--deep", "--json")
    assert verified.code == Exit.DONE
    whole = [c for c in verified.document["checks"] if c["name"].endswith("every record exactly once")]
    assert [(c["proves"], c["left_out"] or "") for c in whole] == [("coordinates", "")] * 3
    routes = here.drill.ask("select route ->> 'because' from lockstep.attempt order by token desc limit 1")
    assert routes[0][0].endswith("it begins below log start, in the archive")
