"""The doctor, at real servers: what is wrong is really so, and what it says to type makes it right."""

from __future__ import annotations

import itertools
import os
import re
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg2
import pytest
from confluent_kafka import Producer

from command_line import TARGET, assert_refused
from lockstep.dev import ports

NUMBERS = itertools.count()
# One broker holds everything once; an older Postgres is made without checksums.
KNOWN = {"replication.factor", "min.insync.replicas", "data_checksums"}
OF_A_RUN = ", ".join(f"lockstep_{role}" for role in ("planner", "stager", "committer", "partition", "reader"))
DEFINITION = """
from lockstep.core.definition import Append, Json, Limits, Pipeline
P = Pipeline(
    name="{name}", topic="{topic}", format=Json("id string, n int"), target=Append("public.orders"),
    schedule={schedule!r}, limits=Limits(bytes={limit}),
)
"""


@pytest.fixture
def define(lockstep, database, kafka):
    """`define(name, topic)` makes a pipeline whose target is there."""
    lockstep.environ(LOCKSTEP_DSN=database, LOCKSTEP_KAFKA=kafka, SPARK_MASTER="local[2]")

    def make(name: str, topic: str, schedule: str | None = "*/5 * * * *", limit: int | None = None) -> None:
        lockstep.define(
            name, init=DEFINITION.format(name=name, topic=topic, schedule=schedule, limit=limit), target=TARGET
        )
        if name == "orders":
            assert lockstep("migrate", name).code == 0

    return make


@pytest.fixture
def orders(define, topic):
    """A pipeline on a topic of two partitions."""
    name = topic(partitions=2)
    define("orders", name)
    return name


@pytest.fixture
def admin(database, postgres):
    """Runs statements in the test's database as the superuser."""
    with closing(psycopg2.connect(re.sub(r"/\w+$", database[database.rindex("/") :], postgres))) as conn:
        conn.autocommit = True
        yield conn.cursor().execute


@pytest.fixture
def login(lockstep, database, admin):
    """`login(roles)` is what LOCKSTEP_DSN then says: a login of the test's own, a member of these roles."""
    made = []

    def make(roles: str = OF_A_RUN, password: str = "own") -> str:  # noqa: S107 - it lives as long as the test
        name = f"login_{os.getpid()}_{next(NUMBERS)}"
        admin(f"create role {name} login password '{password}'")
        admin(f"grant {roles} to {name}")
        made.append(name)
        lockstep.environ(LOCKSTEP_DSN=re.sub(r"//[^@]+@", f"//{name}:{password}@", database))
        return name

    yield make
    for name in made:
        admin(f"drop owned by {name}")
        admin(f"drop role {name}")


def findings(lockstep, *name: str) -> dict[str, dict]:
    """What is wrong, by check, beyond what every test's stack has; exit code and `ok` agree."""
    said = lockstep("doctor", *name, "--json")
    document = said.document
    assert said.err == ""
    assert said.code == (0 if document["ok"] else 1)
    problems = [f for f in document["findings"] if f["severity"] == "problem"]
    assert (document["problems"], document["ok"]) == (len(problems), not problems)
    return {f["check"]: f for f in document["findings"] if not (f["check"] in KNOWN and f["severity"] == "warning")}


def test_a_healthy_pipeline_has_no_problem_and_one_broker_is_a_warning(lockstep, orders, produce):
    produce(orders, [("k", "{}")])

    document = lockstep("doctor", "orders", "--json").document

    assert (document["ok"], document["problems"], document["pipelines"]) == (True, 0, ["orders"])
    assert {f["check"] for f in document["findings"]} - {"data_checksums"} == KNOWN - {"data_checksums"}
    assert all("one broker" in f["found"] for f in document["findings"] if f["subject"] == f"topic {orders}")
    assert document["warnings"] == len(document["findings"])
    assert document["passed"] > 30
    said = lockstep("doctor")
    assert (said.code, said.err) == (0, "")
    assert f"{document['passed']} checks passed, {document['warnings']} warnings, 0 problems" in said.out
    assert f"warning  topic {orders}  replication.factor: 1" in said.out
    folded = [line for line in said.out.splitlines() if not line.startswith("  set: ")]
    assert max(map(len, folded)) <= 80


def test_every_topic_is_told_what_is_wrong_with_it(lockstep, orders, define, topic):
    assert orders
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
    define("huge", orders, limit=2**40)
    define("odd", orders, schedule="every now and then")

    said = lockstep("doctor", "--json")

    assert said.code == 1
    found = {(f["subject"], f["check"], f["severity"]) for f in said.document["findings"]}
    for its_topic, check, severity in wrong.values():
        assert (f"topic {its_topic}", check, severity) in found
    assert ("pipeline huge", "limits", "warning") in found
    assert ("pipeline odd", "schedule", "warning") in found
    sound = {check for subject, check, _ in found if subject == f"topic {orders}"}
    assert sound <= KNOWN


def test_an_open_transaction_is_told_with_its_age_and_a_hanging_one_is_a_problem(lockstep, orders, kafka):
    with (
        open_transaction(kafka, orders, 0, timedelta(seconds=90)),
        open_transaction(kafka, orders, 1, timedelta(hours=2)),
    ):
        document = lockstep("doctor", "orders", "--json").document
    found = {f["subject"]: f for f in document["findings"] if f["check"] == "open transaction"}

    young, hanging = found[f"{orders}-0"], found[f"{orders}-1"]
    assert (young["severity"], hanging["severity"]) == ("warning", "problem")
    assert 90 <= age(young) < 200
    assert 7200 <= age(hanging) < 7400
    assert young["found"].startswith("3 offsets from 0 on")
    assert f"abort --topic {orders} --partition 1 --start-offset 0" in hanging["remedy"]
    assert "open transaction" not in findings(lockstep, "orders")


def test_headroom_is_the_time_until_the_oldest_record_that_waits_may_go(lockstep, define, topic, kafka):
    name = topic(2, retention_ms=3_600_000)
    define("orders", name)
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(name, "{}", partition=0, timestamp=moment(timedelta(minutes=58)))
    producer.produce(name, "{}", partition=1)
    producer.flush(20)

    found = findings(lockstep, "orders")["headroom"]

    assert (found["severity"], found["subject"]) == ("problem", f"{name}-0")
    assert 0 < int(re.match(r"\d+", found["found"])[0]) <= 120
    assert f"--entity-name {name} --alter --add-config retention.ms=-1" in found["remedy"]


def test_what_a_login_or_a_database_sets_is_told_and_the_remedy_undoes_it(lockstep, orders, admin, login, database):
    name, where = login(), database.rpartition("/")[2]
    for setting, wrong in {
        "synchronous_commit": "off",
        "default_transaction_isolation": "'repeatable read'",
        "idle_in_transaction_session_timeout": "'1s'",
    }.items():
        for place in (f'role "{name}"', f'role "{name}" in database "{where}"', f'database "{where}"'):
            admin(f"alter {place} set {setting} = {wrong}")
            found = findings(lockstep, "orders")
            assert set(found) == {setting}
            assert place.replace('"', "") in found[setting]["found"]
            admin(found[setting]["remedy"])
    assert findings(lockstep, "orders") == {}
    assert orders


def test_a_missing_membership_is_told_and_granting_it_is_enough(lockstep, orders, admin, login):
    name = login("lockstep_planner, lockstep_stager, lockstep_reader")

    found = findings(lockstep, "orders")

    assert set(found) == {"membership"}
    assert found["membership"]["subject"] == f"role {name}"
    assert "lockstep_committer, lockstep_partition" in found["membership"]["found"]
    admin(found["membership"]["remedy"])
    assert findings(lockstep, "orders") == {}
    assert orders


def test_a_login_without_any_role_is_told_so_and_nothing_else_is_guessed(lockstep, orders, login):
    login("pg_read_all_settings")
    assert set(findings(lockstep, "orders")) == {"membership"}
    assert orders


def test_grants_that_deviate_are_told_and_what_is_said_puts_them_right(lockstep, orders, admin):
    for wrong, check, words in (
        ("grant update on lockstep.commit to lockstep_committer", "history", "lockstep_committer update commit"),
        ("grant update (token) on lockstep.result to lockstep_stager", "history", "lockstep_stager update result"),
        ("grant delete on lockstep.decision to public", "history", "lockstep_reader delete decision"),
        ("revoke insert on lockstep.coverage from lockstep_committer", "grants", "lockstep_committer insert coverage"),
    ):
        admin(wrong)
        found = findings(lockstep, "orders")
        assert set(found) == {check}
        if "public" not in wrong:
            assert words in found[check]["found"]
            admin(found[check]["remedy"])
        else:
            admin("revoke delete on lockstep.decision from public")
    assert findings(lockstep, "orders") == {}
    assert orders


def test_a_target_that_cannot_be_published_to_is_told(lockstep, orders, admin):
    admin("alter table public.orders set unlogged")
    assert findings(lockstep, "orders")["target"]["found"] == "unlogged"
    admin("revoke insert on public.orders from lockstep_committer")
    assert "not granted" in findings(lockstep, "orders")["target"]["found"]
    admin("drop table public.orders")
    assert findings(lockstep, "orders")["target"]["remedy"] == "lockstep migrate orders"
    assert orders


def test_migrations_that_deviate_are_told_apart(lockstep, orders, admin):
    admin("insert into lockstep.migration (version, name, checksum) values (99, 'future', 'x')")
    assert "0099 applied, which this code does not have" in findings(lockstep, "orders")["migrations"]["found"]
    admin("update lockstep.migration set checksum = 'other' where version = 1")
    found = findings(lockstep, "orders")
    assert set(found) == {"migrations"}
    assert "0001 applied with other content" in found["migrations"]["found"]
    assert orders


def test_a_database_without_a_ledger_is_told_to_migrate(lockstep, orders, empty_database):
    lockstep.environ(LOCKSTEP_DSN=empty_database)
    found = findings(lockstep, "orders")
    assert set(found) == {"migrations", "target"}
    assert found["migrations"]["remedy"] == "lockstep migrate"
    assert orders


def test_too_few_connections_for_a_batch_are_told(lockstep, orders, admin, login):
    name = login()
    admin(f"alter role {name} connection limit 5")
    found = findings(lockstep, "orders")
    assert set(found) == {"max_connections"}
    assert found["max_connections"]["severity"] == "problem"
    assert f"role {name}" in found["max_connections"]["remedy"]
    assert orders


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
        assert_refused(refused)
        assert "canary" not in refused.err
        assert "-secret" not in refused.err


def test_kafka_away_is_one_line_and_postgres_is_looked_at_all_the_same(lockstep, orders, admin, tmp_path):
    assert orders
    admin("grant update on lockstep.commit to lockstep_committer")
    lockstep.environ(LOCKSTEP_KAFKA=f"127.0.0.1:{ports.choose(tmp_path)}")
    found = findings(lockstep)
    assert set(found) == {"kafka", "history"}
    assert "does not answer" in found["kafka"]["found"]
    lockstep.environ(LOCKSTEP_KAFKA_CONFIG='{"sasl.password": "canary-secret", ')
    said = lockstep("doctor")
    assert (said.code, said.err) == (1, "")
    assert "LOCKSTEP_KAFKA_CONFIG" in said.out
    assert "canary" not in said.out


def test_a_broken_definition_does_not_hide_the_others(lockstep, orders):
    lockstep.define("broken", init="x = 1")
    found = findings(lockstep)
    assert set(found) == {"definition"}
    assert found["definition"]["remedy"] == "lockstep check broken"
    assert lockstep("doctor", "--json").document["pipelines"] == ["orders"]
    assert_refused(lockstep("doctor", "nobody"), "no pipeline 'nobody'")
    assert orders


class open_transaction:  # noqa: N801 - it is used as a block
    """Three records of a transaction that stays open for as long as the block lasts, the first of them this old."""

    def __init__(self, kafka: str, topic: str, partition: int, old: timedelta) -> None:
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


def moment(ago: timedelta) -> int:
    return int((datetime.now(UTC) - ago).timestamp() * 1000)


def age(finding: dict) -> int:
    return int(re.search(r"open for (\d+) seconds", finding["found"])[1])
