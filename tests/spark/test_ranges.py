"""Tests Kafka to Postgres through Spark: exactly the visible records of exactly the ranges, for any log."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from lockstep.core.errors import BadData, Refusal
from lockstep.core.planning.decisions import Blocked, Idle, Start
from support.scenes.odd_logs import grow, marked

ID = "id string, n int"
DDL = "id text, n int"


def records(n: int, start: int = 0) -> list[tuple[str, str]]:
    return [(f"k{i}", json.dumps({"id": f"r{i}", "n": i})) for i in range(start, start + n)]


def test_aborted_records_are_never_seen_and_markers_are_no_loss(pipeline, topic, produce):
    name = topic(partitions=1)
    produce(name, records(5), end="commit")
    produce(name, records(7, 100), end="abort")
    produce(name, records(3, 200), end="commit")
    loaded = pipeline(name, ID, DDL)

    report = loaded.run()

    assert [(r.delivered, r.written, r.until_offset) for r in report.ranges] == [(8, 8, 18)]  # 15 records and 3 markers
    assert loaded.ask(f"select count(*) from {loaded.name} where n >= 100 and n < 200") == [(0,)]
    assert loaded.violations() == []


def test_a_range_that_is_wholly_aborted_commits_with_nothing_delivered(pipeline, topic, produce):
    name = topic(partitions=1)
    produce(name, records(4), end="abort")
    loaded = pipeline(name, ID, DDL)

    report = loaded.run()

    assert [(r.from_offset, r.until_offset, r.delivered) for r in report.ranges] == [(0, 5, 0)]
    assert isinstance(loaded.run().decision, Idle)
    assert loaded.violations() == []


def test_an_open_transaction_holds_the_plan_back_and_loses_nothing_later(pipeline, topic, produce, kafka):
    name = topic(partitions=1)
    produce(name, records(3))
    hanging = produce(name, records(4, 10), end="open")
    produce(name, records(2, 20))
    loaded = pipeline(name, ID, DDL)

    assert [r.until_offset for r in loaded.run().ranges] == [3]
    assert isinstance(loaded.run().decision, Idle)
    hanging.commit_transaction(20)
    marked(kafka, name, 10)

    assert [(r.from_offset, r.delivered) for r in loaded.run().ranges] == [(3, 6)]
    assert loaded.violations() == []


def test_holes_that_deleted_records_left_stop_the_pipeline_until_somebody_accepts_the_loss(
    pipeline, topic, produce, kafka
):
    name = topic(partitions=1)
    produce(name, records(10))
    loaded = pipeline(name, ID, DDL)
    loaded.run()
    produce(name, records(10, 10))
    admin, here = AdminClient({"bootstrap.servers": kafka}), TopicPartition(name, 0, 15)
    admin.delete_records([here])[here].result(10)

    decision = loaded.run().decision

    assert isinstance(decision, Blocked)
    assert "--partition 0 --from 10 --until 15" in decision.next_command
    assert loaded.ask(f"select count(*) from {loaded.name}") == [(10,)]


def test_rejects_travel_with_the_rows_and_keep_their_bytes(pipeline, topic, produce):
    name = topic(partitions=2)
    produce(name, [("a", b"{bad"), ("b", b"\xff\x00"), *records(50), ("c", None)])
    loaded = pipeline(name, ID, DDL)

    report = loaded.run()

    assert sum(r.rejected for r in report.ranges) == 3
    kept = {
        bytes(key): (value and bytes(value), reason)
        for key, value, reason in loaded.ask("select key, value, reason from lockstep.reject")
    }
    assert kept == {
        b"a": (b"{bad", "not a JSON object"),
        b"b": (b"\xff\x00", "not valid UTF-8"),
        b"c": (None, "null value"),
    }
    assert loaded.violations() == []


def test_a_flood_of_rejects_refuses_the_commit_and_three_of_them_block(pipeline, topic, produce):
    name = topic(partitions=1)
    produce(name, [("k", b"nonsense")] * 200 + records(100))
    loaded = pipeline(name, ID, DDL)

    for _ in range(3):
        with pytest.raises(BadData, match="200 of 300 records were rejected"):
            loaded.run()
    decision = loaded.run().decision

    assert isinstance(decision, Blocked)
    assert "--retry" in decision.next_command
    assert loaded.ask("select count(*) from lockstep.commit") == [(0,)]
    assert (
        loaded.ask("select split_part(error, E'\n', 2) from lockstep.attempt")
        == [(f"200 records, first {name}-0 offset 0: not a JSON object",)] * 3
    )


def test_the_newest_record_of_a_key_wins_and_a_tombstone_deletes(pipeline, topic, produce):
    name = topic(partitions=3)
    updates = [(f"o{i % 40}", json.dumps({"id": f"o{i % 40}", "n": i})) for i in range(400)]
    produce(name, updates)
    produce(name, [(f"o{i}", None) for i in range(0, 40, 4)])
    produce(name, [("o4", json.dumps({"id": "o4", "n": 999}))])
    loaded = pipeline(name, ID, "id text primary key, n int", target="Upsert", key="id", limits="Limits(records=77)")

    reports = loaded.run_until_idle()

    assert len(reports) > 5
    assert loaded.ask(f"select count(*), max(n) from {loaded.name}") == [(31, 999)]
    assert loaded.violations(key="id") == []


def test_a_key_in_two_partitions_is_refused_by_name(pipeline, topic, produce):
    name = topic(partitions=2)
    for partition in (0, 1):
        produce(name, [("x", json.dumps({"id": "x", "n": partition}))], partition=partition)
    loaded = pipeline(name, ID, "id text primary key, n int", target="Upsert", key="id")

    with pytest.raises(BadData, match="order_by"):
        loaded.run()
    assert loaded.ask("select count(*) from lockstep.commit") == [(0,)]


def test_a_large_message_and_every_compression_come_through(pipeline, topic, produce):
    name = topic(partitions=1, max_message_bytes=3_000_000)
    long = "é" * 600_000
    for codec in ("gzip", "snappy", "lz4", "zstd", "none"):
        message = json.dumps({"id": long if codec == "none" else codec, "n": 1}, ensure_ascii=False)
        produce(name, [("k", message)], **{"compression.type": codec, "message.max.bytes": 3_000_000})
    loaded = pipeline(name, ID, DDL)

    loaded.run()

    assert loaded.ask(f"select count(*), max(length(id)) from {loaded.name}") == [(5, 600_000)]
    assert loaded.violations() == []


def test_a_target_that_cannot_hold_the_columns_is_refused_before_anything_is_read(pipeline, topic, produce):
    name = topic(partitions=1)
    produce(name, records(1))
    for ddl, said in (
        ("id text, n boolean", "n is boolean"),
        ("id text", "no column n"),
        (f"{DDL}, must int not null", "must"),
    ):
        loaded = pipeline(name, ID, ddl)
        with pytest.raises(Refusal, match=said):
            loaded.run()
    assert loaded.ask("select count(*) from lockstep.attempt") == [(0,)]


def test_what_the_target_itself_refuses_is_told_with_the_constraints_name(pipeline, topic, produce):
    name = topic(partitions=1)
    produce(name, records(5))
    loaded = pipeline(name, ID, "id text, n int constraint small check (n < 4)")

    with pytest.raises(BadData, match="small"):
        loaded.run()
    assert loaded.ask(f"select count(*) from {loaded.name}") == [(0,)]
    assert loaded.ask("select state, fault from lockstep.attempt") == [("failed", "data")]


@pytest.mark.parametrize("started", ["latest", "earliest"])
def test_a_pipeline_begins_where_it_says(pipeline, topic, produce, started):
    name = topic(partitions=1)
    produce(name, records(6))
    loaded = pipeline(name, ID, DDL, start=repr(started))

    first = loaded.run().decision
    produce(name, records(2, 50))
    loaded.run_until_idle()

    assert isinstance(first, Idle if started == "latest" else Start)
    assert loaded.ask(f"select count(*) from {loaded.name}") == [(2 if started == "latest" else 8,)]
    assert loaded.violations() == []


def test_a_grown_topic_opens_a_new_epoch_and_loses_nothing(pipeline, topic, produce, kafka):
    name = topic(partitions=2)
    produce(name, records(20))
    loaded = pipeline(name, ID, DDL)
    loaded.run()
    grow(kafka, name, 4)
    produce(name, records(40, 20))

    loaded.run_until_idle()

    assert loaded.ask("select count(*), max(epoch) from lockstep.stream where retired_at is null") == [(4, 1)]
    assert loaded.ask(f"select count(*) from {loaded.name}") == [(60,)]
    assert loaded.violations() == []
