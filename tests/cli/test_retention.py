"""Tests that `retention` says from a real broker when records go, and is wrong on no side of its alarm."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource

from lockstep.cli.exits import Exit
from support.scenes.command_line import at_a_terminal, without_styles
from support.scenes.odd_logs import alter, delete_records, high_end, recreate

HOUR = 3_600_000
NAMES = ("retention", "drill")


def dated(here, hours_ago, partition=0, size=10, count=2):
    """Produces records of an age."""
    producer = Producer({"bootstrap.servers": here.drill.kafka})
    for n in range(count):
        value = json.dumps({"id": "x" * size, "n": n})
        stamp = int(time.time() * 1000 - hours_ago * HOUR)
        producer.produce(here.drill.topic, value, "w", partition=partition, timestamp=stamp)
    producer.flush(20)


def keep(here, **settings: Any):
    pairs = [(name.replace("_", "."), str(value)) for name, value in settings.items()]
    alter(here.drill.kafka, ConfigResource.Type.TOPIC, here.drill.topic, pairs)


def partition(document, number=0):
    return document["partitions"][number]


def test_where_nothing_waits_nothing_is_deleted(here, lockstep):
    here.drain()
    keep(here, retention_ms=HOUR)

    said = lockstep(*NAMES, "--json")

    assert (said.code, said.document["ok"], said.document["deleted_at_earliest"]) == (Exit.DONE, True, None)
    assert {each["state"] for each in said.document["partitions"]} == {"nothing waits"}
    assert lockstep(*NAMES).out.splitlines()[-1] == "drill: nothing waits"


def test_by_time_it_is_the_records_own_time_and_the_alarm_decides_the_exit_code(here, lockstep):
    here.drain()
    end = high_end(here.drill.kafka, here.drill.topic, 1)
    dated(here, 14, partition=1)
    keep(here, retention_ms=24 * HOUR)

    calm, short = lockstep(*NAMES, "--alarm", "9", "--json"), lockstep(*NAMES, "--alarm", "11", "--json")

    assert (calm.code, calm.document["ok"], calm.document["next"]) == (Exit.DONE, True, None)
    assert (short.code, short.document["ok"]) == (Exit.REFUSED, False)
    assert short.document["next"] == "lockstep run drill --until-idle"
    found = partition(calm.document, 1)
    assert (found["state"], found["first_unread"], found["until_offset"], found["by"]) == (
        "waits",
        end,
        end + 2,
        "time",
    )
    assert found["deleted_at_earliest"] == found["at_todays_rate"] == found["at_worst_hour"]
    assert found["deleted_at_earliest"] == calm.document["deleted_at_earliest"]
    left = datetime.fromisoformat(found["deleted_at_earliest"]) - datetime.fromisoformat(found["time"])
    assert left.total_seconds() == 24 * 3600
    assert calm.document["seconds"] == pytest.approx(10 * 3600, abs=60)
    *_, words, go_on = lockstep(*NAMES, "--alarm", "11").out.splitlines()
    assert words.startswith("drill: may be deleted from 20")
    assert words.endswith("Z on, in 10 h, by time")
    assert go_on == "below the alarm of 11 h.  Next: lockstep run drill --until-idle"
    keep(here, cleanup_policy="compact")
    kept = lockstep(*NAMES, "--alarm", "11", "--json")
    assert (kept.code, kept.document["deleted_at_earliest"]) == (Exit.DONE, None)


def test_by_size_it_is_the_rate_of_today_and_of_the_worst_hour(here, lockstep, topic):
    name = topic(partitions=1)
    here.rewrite(here.drill.topic, name)
    here.drill.topic = name
    dated(here, 30, size=1_000, count=100)  # 100 kB in the worst hour
    here.drain()
    for hours in range(23, 0, -1):
        dated(here, hours, size=1_000, count=10)
    here.drain()
    keep(here, retention_ms=-1, retention_bytes=1_000_000)
    dated(here, 0.5, size=1_000, count=10)

    document = lockstep(*NAMES, "--json").document

    found = partition(document)
    assert (found["state"], found["by"], document["ok"]) == ("waits", "bytes", True)
    assert found["waiting_bytes"] == pytest.approx(10_900, rel=0.1)
    assert found["worst_hour"]["bytes_per_second"] > 4 * found["today"]["bytes_per_second"]
    assert document["at_worst_hour"] == document["deleted_at_earliest"] < document["at_todays_rate"]
    assert found["seconds"] == pytest.approx((1_000_000 - 10_900) / found["worst_hour"]["bytes_per_second"], rel=0.01)
    at_a_terminal(lockstep.monkeypatch, columns=80)
    lines = without_styles(lockstep(*NAMES).out).splitlines()
    assert max(map(len, lines)) <= 80
    assert f"  the fastest partition today: {found['today']['records_per_second']:.3g} records/s, " in "\n".join(lines)
    keep(here, retention_bytes=20_000)
    assert lockstep(*NAMES).code == Exit.REFUSED
    keep(here, retention_bytes=100)
    assert partition(lockstep(*NAMES, "--json").document)["seconds"] == 0


def test_without_a_batch_only_time_is_known_and_that_is_said(here, lockstep):
    keep(here, retention_ms=7 * 24 * HOUR, retention_bytes=10)

    document = lockstep(*NAMES, "--json").document

    assert {each["state"] for each in document["partitions"]} == {"waits"}
    assert {each["by"] for each in document["partitions"]} == {"time"}
    assert ["no batch read a record of the last 7 days" in each for each in document["not_known"]] == [True]
    assert "  not known: when retention.bytes is reached" in lockstep(*NAMES).out
    here.rewrite('target=Append("public.drill")', 'target=Append("public.drill"), start="latest"')
    assert {each["state"] for each in lockstep(*NAMES, "--json").document["partitions"]} == {"nothing waits"}


def test_an_aborted_record_and_one_of_an_open_transaction_count_for_a_segment_has_them(here, produce, lockstep):
    here.drain()
    keep(here, retention_ms=24 * HOUR)
    produce(here.drill.topic, [("k", '{"id": "a", "n": 1}')], 0, end="abort")
    open_one = produce(here.drill.topic, [("k", '{"id": "o", "n": 1}')], 1, end="open")

    found = lockstep(*NAMES, "--json").document["partitions"]

    assert [each["state"] for each in found] == ["waits", "waits", "nothing waits"]
    assert all(each["seconds"] > 23 * 3600 for each in found[:2])
    open_one.abort_transaction(20)


def test_what_was_deleted_already_is_lost_and_names_the_command_that_accepts_it(here, lockstep):
    here.drain()
    end = high_end(here.drill.kafka, here.drill.topic, 1)
    dated(here, 0, partition=1)
    delete_records(here.drill.kafka, here.drill.topic, end + 1, 1)

    said = lockstep(*NAMES, "--json")

    assert (said.code, partition(said.document, 1)["state"]) == (Exit.REFUSED, "lost")
    accept = f"lockstep accept-loss drill --partition 1 --from {end} --until {end + 1} --reason ..."
    assert said.document["next"] == partition(said.document, 1)["next"] == accept
    assert lockstep(*NAMES, "--alarm", "0").code == Exit.REFUSED
    *_, words, go_on = lockstep(*NAMES).out.splitlines()
    assert f"-1: offsets [{end}, {end + 1}) were deleted before they were committed" in words
    assert go_on == f"Next: {accept}"


def test_another_log_says_nothing_of_the_records_that_were_not_committed(here, lockstep):
    here.drain()
    recreate(here.drill.kafka, here.drill.topic)

    said = lockstep(*NAMES, "--json")

    assert (said.code, said.document["next"]) == (Exit.REFUSED, "lockstep status drill")
    assert {each["state"] for each in said.document["partitions"]} == {"another log"}


def test_offsets_of_another_log_are_not_counted_from_the_old_position(here, lockstep, produce):
    here.drain()
    recreate(here.drill.kafka, here.drill.topic)
    produce(here.drill.topic, [("w", '{"id": "w", "n": 1}')] * 200, partition=0)

    said, shown = lockstep(*NAMES, "--json"), lockstep(*NAMES)

    assert {each["waiting_bytes"] for each in said.document["partitions"]} == {None}
    waits = [line.split()[2] for line in shown.out.splitlines() if line.startswith(f"{here.drill.topic}-")]
    assert waits == ["-"] * len(said.document["partitions"])


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (("retention", "nope"), Exit.REFUSED, "no pipeline 'nope'; there are: drill  Next: "),
        (("retention",), Exit.USAGE, "Missing argument 'NAME'.  Next: lockstep retention --help"),
        ((*NAMES, "--alarm", "-1"), Exit.USAGE, "'--alarm'"),
        ((*NAMES, "--alarm", "nan"), Exit.USAGE, "'--alarm'"),
        ((*NAMES, "--alarm", "inf"), Exit.USAGE, "'--alarm'"),
        ((*NAMES, "--alarm", "soon"), Exit.USAGE, "'--alarm'"),
    ],
)
def test_a_bad_call_is_one_line_with_what_to_do(here, lockstep, words, code, line):
    assert here.folder.pipeline.name == "drill"
    said = lockstep(*words)
    assert (said.code, len(said.err.splitlines())) == (code, 1)
    assert line in said.err
    assert "  Next: " in said.err


def test_a_broker_that_is_away_and_a_topic_that_is_not_there_are_said(here, lockstep, monkeypatch):
    here.rewrite(f'topic="{here.drill.topic}"', 'topic="nowhere"')
    said = lockstep(*NAMES)
    assert (said.code, "topic nowhere is not on the broker" in said.err) == (Exit.REFUSED, True)
    monkeypatch.setattr("lockstep.adapters.kafka.client.ANSWER_SECONDS", 0.2)
    lockstep.environ(LOCKSTEP_KAFKA="127.0.0.1:1")
    said = lockstep(*NAMES)
    assert (said.code, "127.0.0.1:1" in said.err) == (Exit.AWAY, True)
