"""Tests if records stay long enough and can be read: each case with its reason, on both sides of the line."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lockstep.core.health import broker_findings, log_findings
from lockstep.core.health.broker_findings import TopicFacts
from lockstep.core.health.findings import DoctorReport
from lockstep.core.health.log_findings import LogFacts, OpenTransaction
from lockstep.core.pipeline.definition import Accumulate, Append, Count, Json, Pipeline, Upsert

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ORDERS = Pipeline("orders", "orders.v1", Json("id string, n int"), Append("public.orders"), schedule="*/5 * * * *")
TOTALS = replace(ORDERS, target=Accumulate("public.orders", key=("id",), totals=(Count("n"),)))
KEYED = replace(ORDERS, target=Upsert("public.orders", key=("id",)))
DAY = 86_400_000
SOUND: dict[str, Any] = {
    "cleanup.policy": "delete",
    "delete.retention.ms": str(DAY),
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "2",
    "retention.bytes": "-1",
    "retention.ms": str(7 * DAY),
    "transaction.max.timeout.ms": "900000",
    "unclean.leader.election.enable": "false",
}
TOPIC = TopicFacts("broker:9092", "orders.v1", brokers=3, partitions=8, copies=3, settings=SOUND)
MINUTES = timedelta(minutes=5)


def topic(brokers: int = 3, copies: int = 3, partitions: int = 8, **settings: Any) -> TopicFacts:
    given = {name.replace("_", "."): str(value) for name, value in settings.items()}
    return replace(TOPIC, brokers=brokers, copies=copies, partitions=partitions, settings=SOUND | given)


def severity(finding) -> str | None:
    return finding and str(finding.severity)


@pytest.mark.parametrize(
    ("facts", "expected", "reason"),
    [
        (topic(), None, "three copies"),
        (topic(copies=2), None, "two survive one broker"),
        (topic(copies=1), "problem", "more brokers are there, and they hold nothing"),
        (topic(brokers=2, copies=1), "problem", "two are enough for two copies"),
        (topic(brokers=1, copies=1), "warning", "one broker cannot do better"),
    ],
)
def test_replication(facts, expected, reason):
    assert severity(broker_findings.replication(facts)) == expected, reason


def test_one_broker_is_said_once_however_many_topics_it_has():
    every = [
        judge(replace(topic(brokers=1, copies=1, min_insync_replicas=1), topic=name))
        for judge in (broker_findings.replication, broker_findings.in_sync)
        for name in ("orders.v1", "clicks.v1")
    ]
    found = DoctorReport.of(every).findings
    assert [(each.check, each.subject) for each in found] == [
        ("replication.factor", "cluster broker:9092"),
        ("min.insync.replicas", "cluster broker:9092"),
    ]


@pytest.mark.parametrize(
    ("facts", "expected", "reason"),
    [
        (topic(), None, "two of three: one broker may be away"),
        (topic(min_insync_replicas=1), "problem", "acknowledged by the leader alone"),
        (topic(min_insync_replicas=3), "warning", "as many as copies: one away refuses the producers"),
        (topic(copies=2), "warning", "two of two is the same"),
        (topic(copies=2, min_insync_replicas=3), "problem", "more than copies: nobody can write"),
        (topic(brokers=1, copies=1, min_insync_replicas=1), "warning", "one broker cannot do better"),
        (topic(brokers=1, copies=1), "problem", "two of one: nobody can write"),
        (topic(brokers=5, copies=5, min_insync_replicas=4), None, "four of five"),
    ],
)
def test_in_sync(facts, expected, reason):
    assert severity(broker_findings.in_sync(facts)) == expected, reason


@pytest.mark.parametrize(
    ("facts", "pipeline", "expected", "words", "reason"),
    [
        (topic(), ORDERS, None, "", "deleting by age is told by retention"),
        (topic(cleanup_policy="compact"), ORDERS, "warning", "deletes the rows", "an append replay loses rows"),
        (topic(cleanup_policy="compact,delete"), ORDERS, "warning", "deletes the rows", "compact is in it"),
        (topic(cleanup_policy="compact"), KEYED, "warning", "newest of each key", "a keyed target keeps its rows"),
        (topic(cleanup_policy="compact"), TOTALS, "warning", "out of the totals", "totals lose what is not read again"),
    ],
)
def test_cleanup(facts, pipeline, expected, words, reason):
    found = broker_findings.cleanup(facts, pipeline)
    assert severity(found) == expected, reason
    assert not found or words in found.why


@pytest.mark.parametrize(
    ("facts", "expected", "reason"),
    [
        (topic(), None, "no leader without the records"),
        (topic(unclean_leader_election_enable="true"), "problem", "a lagging leader serves other records"),
    ],
)
def test_unclean(facts, expected, reason):
    assert severity(broker_findings.unclean(facts)) == expected, reason


@pytest.mark.parametrize(
    ("facts", "expected", "reason"),
    [
        (topic(), None, "an hour ahead at most, as Kafka 4 has it"),
        (topic(message_timestamp_after_max_ms=DAY), None, "a day is still a clock that is wrong, not a date"),
        (topic(message_timestamp_after_max_ms=DAY + 1), "warning", "more than a day ahead"),
        (topic(message_timestamp_after_max_ms=2**63 - 1), "warning", "as far as one likes"),
        (
            topic(message_timestamp_after_max_ms=2**63 - 1, message_timestamp_type="LogAppendTime"),
            None,
            "the broker's own clock: what producers say does not count",
        ),
    ],
)
def test_timestamps(facts, expected, reason):
    assert severity(broker_findings.timestamps(facts)) == expected, reason


@pytest.mark.parametrize(
    ("partitions", "cores", "expected", "reason"),
    [
        (8, 8, None, "one task a core"),
        (64, 4, None, "many fewer cores than partitions is fine"),
        (4, 8, None, "half of the cores work"),
        (3, 8, "warning", "fewer than half do"),
        (1, 2, "warning", "one partition is no parallelism at all"),
        (1, 1, None, "one core has one to read"),
        (1, None, None, "a cluster's cores are not to be seen"),
    ],
)
def test_partitions(partitions, cores, expected, reason):
    assert severity(broker_findings.partition_findings(topic(partitions=partitions), cores)) == expected, reason


@pytest.mark.parametrize(
    ("facts", "wait", "expected", "reason"),
    [
        (topic(), MINUTES, None, "a week outlasts five minutes"),
        (topic(retention_ms=900_000), MINUTES, None, "exactly three runs"),
        (topic(retention_ms=899_999), MINUTES, "warning", "not quite three runs"),
        (topic(retention_ms=300_000), MINUTES, "warning", "exactly one run"),
        (topic(retention_ms=299_999), MINUTES, "problem", "gone before the next run"),
        (topic(retention_ms=0), MINUTES, "problem", "nothing is kept at all"),
        (topic(retention_ms=-1), MINUTES, None, "time deletes nothing"),
        (topic(retention_ms=2**63 - 1), MINUTES, None, "the longest that Kafka takes, which is for ever"),
        (topic(retention_ms=1, cleanup_policy="compact"), MINUTES, None, "a compacted topic is not cut by time"),
        (topic(retention_ms=1), None, None, "without a schedule there is nothing to compare with"),
    ],
)
def test_retention(facts, wait, expected, reason):
    assert severity(log_findings.retention(facts, wait)) == expected, reason


@pytest.mark.parametrize(
    ("limit", "pace", "wait", "expected", "reason"),
    [
        (-1, 1e9, MINUTES, None, "size deletes nothing"),
        (90_000, 100.0, MINUTES, None, "full in exactly three runs"),
        (89_999, 100.0, MINUTES, "warning", "full before the third run"),
        (29_999, 100.0, MINUTES, "problem", "full before the next run"),
        (10**12, None, MINUTES, "warning", "how soon it is full nobody can tell yet"),
        (10**300, 1e-3, MINUTES, None, "longer than a clock counts"),
        (1, 1e9, None, None, "without a schedule there is nothing to compare with"),
    ],
)
def test_retention_by_size(limit, pace, wait, expected, reason):
    assert severity(log_findings.retention_by_size(topic(retention_bytes=limit), wait, pace)) == expected, reason


def test_a_compacted_topic_is_not_cut_by_size_either():
    compacted = topic(retention_bytes=1, cleanup_policy="compact")
    assert log_findings.retention_by_size(compacted, MINUTES, 1e9) is None
    both = topic(retention_bytes=1, cleanup_policy="compact,delete")
    assert severity(log_findings.retention_by_size(both, MINUTES, 1e9)) == "problem"


HOUR = topic(retention_ms=3_600_000)


@pytest.mark.parametrize(
    ("facts", "oldest", "wait", "expected", "words", "reason"),
    [
        (HOUR, None, MINUTES, None, "", "nothing waits"),
        (HOUR, timedelta(minutes=44), MINUTES, None, "", "16 minutes are more than three runs"),
        (HOUR, timedelta(minutes=45), MINUTES, "warning", "900 seconds until", "exactly three runs are left"),
        (HOUR, timedelta(minutes=54), MINUTES, "warning", "360 seconds until", "one run is left"),
        (HOUR, timedelta(minutes=55), MINUTES, "problem", "300 seconds until", "the next run may come too late"),
        (HOUR, timedelta(minutes=60), MINUTES, "problem", "at any moment", "its time is over"),
        (HOUR, timedelta(days=9), MINUTES, "problem", "at any moment", "an old date of the producer's counts, too"),
        (HOUR, timedelta(minutes=59), None, None, "", "without a schedule a minute is left"),
        (HOUR, timedelta(minutes=60), None, "problem", "at any moment", "with or without a schedule"),
        (topic(retention_ms=-1), timedelta(days=900), MINUTES, None, "", "time deletes nothing"),
    ],
)
def test_headroom(facts, oldest, wait, expected, words, reason):
    waiting = {} if oldest is None else {3: NOW - oldest, 4: NOW}
    found = log_findings.headroom(ORDERS, facts, LogFacts(waiting, (), None), NOW, wait)
    assert severity(found) == expected, reason
    assert not found or (words in found.found and found.subject == "orders.v1-3"), reason


@pytest.mark.parametrize(
    ("since", "allowed", "expected", "words", "reason"),
    [
        (NOW, 900_000, "warning", "open for 0 seconds", "a young one is told, and that it is as it should be"),
        (NOW - timedelta(minutes=15), 900_000, "warning", "open for 900 seconds", "the broker still lets it be"),
        (NOW - timedelta(seconds=901), 900_000, "problem", "open for 901 seconds", "the broker should have ended it"),
        (NOW - timedelta(seconds=901), 3_600_000, "warning", "open for 901 seconds", "this broker is more patient"),
        (NOW - timedelta(seconds=901), -1, "problem", "open for 901 seconds", "unknown: Kafka's own default"),
        (NOW + timedelta(hours=1), 900_000, "warning", "open for 0 seconds", "a producer's clock ahead of ours"),
        (None, 900_000, "warning", "unknown age", "its first record did not come"),
    ],
)
def test_transactions(since, allowed, expected, words, reason):
    facts = topic(transaction_max_timeout_ms=allowed)
    (found,) = log_findings.transactions(facts, [OpenTransaction(2, 17, 20, since)], NOW)
    assert (severity(found), found.subject) == (expected, "orders.v1-2"), reason
    assert words in found.found, reason
    assert found.found.startswith("3 offsets from 17 on")


def test_no_open_transaction_is_one_thing_that_is_right():
    assert log_findings.transactions(TOPIC, [], NOW) == [None]


@pytest.mark.parametrize(
    ("schedule", "expected", "reason"),
    [
        (None, None, "started by hand"),
        ("@daily", None, "understood"),
        ("@continuous", None, "it never waits"),
        ("every day", "warning", "not understood"),
    ],
)
def test_schedules_that_cannot_be_told(schedule, expected, reason):
    assert severity(log_findings.schedule(replace(ORDERS, schedule=schedule))) == expected, reason


def test_settings_that_may_not_be_seen_are_one_warning_and_nothing_is_guessed():
    hidden = replace(TOPIC, settings=None)
    judged = broker_findings.broker_findings(ORDERS, hidden, 8)
    waiting = LogFacts({0: NOW - timedelta(days=900)}, (), 1e9)
    judged += log_findings.log_findings(ORDERS, hidden, waiting, NOW)
    (found,) = filter(None, judged)
    assert (severity(found), found.check) == ("warning", "topic")
    assert "DescribeConfigs" in found.remedy


def test_a_sound_topic_gives_no_finding():
    nothing = LogFacts({0: NOW - timedelta(minutes=1)}, (), 100.0)
    assert set(log_findings.log_findings(ORDERS, TOPIC, nothing, NOW)) == {None}
    assert set(broker_findings.broker_findings(ORDERS, TOPIC, 8)) == {None}
