"""Tests the doctor with a real broker and database: findings are true, and an absent system is one line."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from confluent_kafka import Producer

from lockstep.cli.exits import Exit
from lockstep.dev.servers import ports
from support.scenes.command_line import assert_refused, at_a_terminal
from support.scenes.odd_logs import settled

KNOWN = {
    "replication.factor",
    "min.insync.replicas",
    "privileges",
}  # one broker; the tests' own login migrates, too


def test_a_healthy_pipeline_has_no_problem_and_one_broker_is_a_warning(lockstep, sound, produce):
    produce(sound, [("k", "{}")])

    document = lockstep("doctor", "orders", "--json").document

    assert (document["ok"], document["problems"], document["pipelines"]) == (True, 0, ["orders"])
    assert {f["check"] for f in document["findings"]} - {"data_checksums"} == KNOWN
    of_one_broker = [f for f in document["findings"] if "one broker" in f["found"]]
    assert {f["check"] for f in of_one_broker} == {"replication.factor", "min.insync.replicas"}
    assert all(f["subject"].startswith("cluster 127.0.0.1:") for f in of_one_broker)
    assert document["warnings"] == len(document["findings"])
    assert document["passed"] > 30
    said = lockstep("doctor")
    assert (said.code, said.err) == (0, "")
    assert f"{document['passed']} checks passed, {document['warnings']} warnings, 0 problems" in said.out
    assert re.search(r"warning  cluster 127.0.0.1:\d+  replication.factor: 1", said.out)
    at_a_terminal(lockstep.monkeypatch, columns=80)
    folded = [line for line in lockstep("doctor").out.splitlines() if not line.startswith("  set: ")]
    assert max(map(len, folded)) <= 80


def test_every_topic_is_told_what_is_wrong_with_it(lockstep, sound, define, topic):
    assert sound
    wrong = {
        "election": (topic(2, unclean_leader_election_enable="true"), "unclean.leader.election.enable", "problem"),
        "refused": (topic(2, min_insync_replicas=2), "min.insync.replicas", "problem"),
        "alone": (topic(2, min_insync_replicas=1), "min.insync.replicas", "warning"),
        "compacted": (topic(2, cleanup_policy="compact"), "cleanup.policy", "warning"),
        "gone_soon": (topic(2, retention_ms=60_000), "retention.ms", "problem"),
        "gone_early": (topic(2, retention_ms=600_000), "retention.ms", "warning"),
        "full_early": (topic(2, retention_bytes=10_000), "retention.bytes", "warning"),
        "future": (topic(2, message_timestamp_after_max_ms=2**62), "message.timestamp.type", "warning"),
        "narrow": (topic(1), "partitions", "warning"),
        "missing": ("no-such-topic", "topic", "problem"),
    }
    for name, (its_topic, _, _) in wrong.items():
        define(name, its_topic)
    define("huge", sound, limit=2**40)
    define("odd", sound, schedule="every now and then")

    said = lockstep("doctor", "--json")

    assert said.code == 1
    found = {(f["subject"], f["check"], f["severity"]) for f in said.document["findings"]}
    del wrong["alone"]  # of one broker, which is said of the cluster
    for its_topic, check, severity in wrong.values():
        assert (f"topic {its_topic}", check, severity) in found
    assert ("pipeline huge", "limits", "warning") in found
    assert ("pipeline odd", "schedule", "warning") in found
    assert not [check for subject, check, _ in found if subject == f"topic {sound}"]
    of_the_cluster = sorted(check for subject, check, _ in found if subject.startswith("cluster "))
    assert of_the_cluster == ["min.insync.replicas", "replication.factor"], "once for all of these topics"


def test_an_open_transaction_is_told_with_its_age_and_a_hanging_one_is_a_problem(lockstep, sound, kafka, findings):
    with (
        open_transaction(kafka, sound, 0, timedelta(seconds=90)),
        open_transaction(kafka, sound, 1, timedelta(hours=2)),
    ):
        document = lockstep("doctor", "orders", "--json").document
    found = {f["subject"]: f for f in document["findings"] if f["check"] == "open transaction"}

    young, hanging = found[f"{sound}-0"], found[f"{sound}-1"]
    assert (young["severity"], hanging["severity"]) == ("warning", "problem")
    assert 90 <= age(young) < 200
    assert 7200 <= age(hanging) < 7400
    assert young["found"].startswith("3 offsets from 0 on")
    assert f"abort --topic {sound} --partition 1 --start-offset 0" in hanging["remedy"]
    assert "open transaction" not in findings("orders")


def test_headroom_is_the_time_until_the_oldest_record_that_waits_may_go(define, topic, kafka, findings):
    name = topic(2, retention_ms=3_600_000)
    define("orders", name)
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(name, "{}", partition=0, timestamp=moment(timedelta(minutes=58)))
    producer.produce(name, "{}", partition=1)
    producer.flush(20)

    found = findings("orders")["headroom"]

    assert (found["severity"], found["subject"]) == ("problem", f"{name}-0")
    assert 0 < int(re.match(r"\d+", found["found"])[0]) <= 120
    assert f"--entity-name {name} --alter --add-config retention.ms=-1" in found["remedy"]


def test_postgres_away_is_one_line_and_kafka_is_looked_at_all_the_same(lockstep, define, topic, tmp_path):
    name = topic(2, unclean_leader_election_enable="true")
    define("orders", name)
    for dsn in (
        f"postgresql://lockstep:canary-secret@127.0.0.1:{ports.choose(tmp_path)}/lockstep",
        "postgresql://lockstep:canary-secret@127.0.0.1:port/lockstep",
        "postgresql://lockstep:canary@-secret@nowhere.invalid/lockstep",
        "postgresql://lockstep:canary/-secret@nowhere.invalid/lockstep",
        "postgresql://lockstep:canary%-secret@nowhere.invalid/lockstep",
        "canary-secret",
    ):
        lockstep.environ(LOCKSTEP_DSN=dsn)
        said = lockstep("doctor", "orders", "--json")
        found = {f["check"]: f for f in said.document["findings"]}
        assert said.code == 1
        assert {"postgres", "unclean.leader.election.enable"} <= set(found)
        assert "\n" not in found["postgres"]["found"]
        assert "canary" not in said.out + said.err
        assert "-secret" not in said.out + said.err
        refused = lockstep("status", "orders")
        assert_refused(refused, code=refused.code)
        assert refused.code in {Exit.REFUSED, Exit.AWAY}
        assert "canary" not in refused.err
        assert "-secret" not in refused.err


def test_kafka_away_is_one_line_and_postgres_is_looked_at_all_the_same(lockstep, sound, admin, tmp_path, findings):
    assert sound
    admin("grant update on lockstep.commit to lockstep_committer")
    lockstep.environ(LOCKSTEP_KAFKA=f"127.0.0.1:{ports.choose(tmp_path)}")
    found = findings()
    assert set(found) == {"kafka", "history"}
    assert "does not answer" in found["kafka"]["found"]
    lockstep.environ(LOCKSTEP_KAFKA_CONFIG='{"sasl.password": "canary-secret", ')
    said = lockstep("doctor")
    assert (said.code, said.err) == (1, "")
    assert "LOCKSTEP_KAFKA_CONFIG" in said.out
    assert "canary" not in said.out


def test_a_broken_definition_does_not_hide_the_others(lockstep, sound, findings):
    lockstep.define("broken", init="x = 1")
    found = findings()
    assert set(found) == {"definition"}
    assert found["definition"]["remedy"] == "lockstep check broken"
    assert lockstep("doctor", "--json").document["pipelines"] == ["orders"]
    assert_refused(lockstep("doctor", "nobody"), "no pipeline 'nobody'")
    assert sound


class open_transaction:  # noqa: N801 - it is used as a block
    """Three records of a transaction that stays open during the block. The first has this age."""

    def __init__(self, kafka: str, topic: str, partition: int, old: timedelta) -> None:
        self.log = kafka, topic, partition
        options = {"bootstrap.servers": kafka, "transactional.id": f"open-{topic}-{partition}"}
        self.producer = Producer(options)
        self.producer.init_transactions(20)
        self.producer.begin_transaction()
        for _ in range(3):
            self.producer.produce(topic, "{}", partition=partition, timestamp=moment(old))
        self.producer.flush(20)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.producer.abort_transaction(20)
        settled(*self.log)


def moment(ago: timedelta) -> int:
    return int((datetime.now(UTC) - ago).timestamp() * 1000)


def age(finding: dict) -> int:
    return int(re.search(r"open for (\d+) seconds", finding["found"])[1])
