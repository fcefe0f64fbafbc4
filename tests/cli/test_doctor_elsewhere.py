"""Tests the doctor with servers of another setup than the tests' own. Each is started for it."""

from __future__ import annotations

import json
import time
from contextlib import closing
from datetime import UTC, datetime

import psycopg2
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from lockstep.adapters.kafka.facts import SurveyedBroker
from lockstep.adapters.postgres import connect_as_is
from lockstep.core.errors import Unreachable
from lockstep.core.health.machine_findings import MachineFacts
from lockstep.core.kafka_options import kafka_options
from lockstep.core.pipeline.definition import Append, Json, Pipeline
from lockstep.dev.servers import cluster, kafka, ports, postgres, processes
from lockstep.steps.inspect.doctor import Places, doctor
from support.fakes.pooler import Pooler
from support.scenes.command_line import TARGET, Said
from support.servers.three_brokers import ThreeBrokers

pytestmark = pytest.mark.long
ORDERS = Pipeline("orders", "orders.v1", Json("id string, n int"), Append("public.orders"), schedule="*/5 * * * *")
MACHINE = MachineFacts({}, None, cores=2, spark_memory=2**31, memory=2**34)


@pytest.fixture
def server(tmp_path):
    home = tmp_path / "postgres-of-its-own"
    yield postgres.start(home)
    postgres.remove_server(home)


def of_topics(broker: SurveyedBroker, *topics: str) -> set[tuple[str, str, str]]:
    """Returns the findings about these topics while Postgres is away."""
    pipelines = [Pipeline(f"p{i}", topic, ORDERS.format, ORDERS.target) for i, topic in enumerate(topics)]
    report = doctor(pipelines, [], Places(lambda: "host=127.0.0.1 port=1", lambda: broker), MACHINE, datetime.now(UTC))
    of_kafka = [f for f in report.findings if f.subject.startswith(("topic ", "broker", "cluster "))]
    return {(f.subject.removeprefix("topic "), str(f.check), str(f.severity)) for f in of_kafka}


def test_a_server_that_forgets_is_told_and_the_remedies_undo_it(lockstep, server, servers):
    lockstep.environ(LOCKSTEP_DSN=server.dsn, LOCKSTEP_KAFKA=servers.kafka().bootstrap)
    lockstep.define(target=TARGET)
    assert lockstep("migrate").code == 0
    wrong = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "local"}

    def found() -> dict[str, dict]:
        return {f["check"]: f for f in lockstep("doctor", "orders", "--json").document["findings"]}

    with closing(psycopg2.connect(server.superuser_dsn)) as conn:
        conn.autocommit = True
        for setting, value in wrong.items():
            conn.cursor().execute(f"alter system set {setting} = {value}")
        conn.cursor().execute("select pg_reload_conf()")
        _until(lambda: wrong.keys() <= found().keys())
        for setting in wrong:
            finding = found()[setting]
            assert (finding["severity"], "configuration file" in finding["found"]) == ("problem", True)
            for statement in finding["remedy"].split("; "):
                conn.cursor().execute(statement)
            _until(lambda setting=setting: setting not in found())


def test_a_transaction_pooler_is_told(lockstep, server, servers):
    lockstep.environ(LOCKSTEP_DSN=server.dsn, LOCKSTEP_KAFKA=servers.kafka().bootstrap)
    lockstep.define(target=TARGET)
    assert lockstep("migrate").code == 0
    (server.data / "pg_hba.conf").write_text("host all all 127.0.0.1/32 trust\n")
    with closing(psycopg2.connect(server.superuser_dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute("select pg_reload_conf()")

    def pooled(dsn: str) -> str | None:
        lockstep.environ(LOCKSTEP_DSN=dsn)
        run.append(lockstep("reap"))
        findings = lockstep("doctor", "orders", "--json").document["findings"]
        return next((f["severity"] for f in findings if f["check"] == "pooler"), None)

    run: list[Said] = []
    pooler = Pooler(server.port, "lockstep", "lockstep")
    address = f"host=127.0.0.1 port={pooler.port} user=lockstep dbname=lockstep"
    through = pooled(address)
    with closing(psycopg2.connect(address)) as conn, conn, conn.cursor() as cur:
        cur.execute("select current_setting('search_path'), current_setting('idle_in_transaction_session_timeout')")
        left = cur.fetchone()
    pooler.close()

    assert (through, pooled(server.dsn)) == ("problem", None)
    assert left == ('"$user", public', "0")  # another application finds no setting of ours
    assert [said.code for said in run] == [1, 0]
    assert "a pooler that gives a session another connection for each transaction" in run[0].err
    assert "Next: set pool_mode to session there" in run[0].err
    assert run[0].err.count("\n") == 1


def test_a_standby_is_told(lockstep, server, servers):
    lockstep.environ(LOCKSTEP_DSN=server.dsn, LOCKSTEP_KAFKA=servers.kafka().bootstrap)
    lockstep.define(target=TARGET)
    assert lockstep("migrate").code == 0
    command = processes.command_line(server.process.pid).split()
    postgres.stop(server)
    (server.data / "standby.signal").touch(mode=0o644)
    log = server.data.parent / "standby.log"
    standby = processes.launch(command, log=log, account=cluster.account())

    def answers() -> bool:
        try:
            connect_as_is(server.dsn).close()
        except Unreachable:
            return False
        return True

    _until(answers)
    said = lockstep("doctor", "orders", "--json")
    processes.stop_process(standby, postgres.Mode.IMMEDIATE.value, patience=10)

    checks = {f["check"] for f in said.document["findings"] if f["severity"] == "problem"}
    assert said.code == 1
    assert "standby" in checks
    assert {"postgres", "membership", "migrations", "history"}.isdisjoint(checks)


def test_copies_in_a_cluster_of_three(tmp_path):
    three = ThreeBrokers(tmp_path)
    try:
        admin = AdminClient({"bootstrap.servers": three.bootstrap})
        made = {"sound": (3, 2), "one-acknowledges": (3, 1), "all-must": (3, 3), "one-copy": (1, 1), "never": (2, 3)}
        topics = [
            NewTopic(name, 2, copies, config={"min.insync.replicas": str(n)}) for name, (copies, n) in made.items()
        ]
        for future in admin.create_topics(topics).values():
            future.result(30)

        found = of_topics(SurveyedBroker(three.bootstrap), *made)
    finally:
        three.stop()

    assert found == {
        ("one-acknowledges", "min.insync.replicas", "problem"),
        ("all-must", "min.insync.replicas", "warning"),
        ("one-copy", "replication.factor", "problem"),
        ("one-copy", "min.insync.replicas", "problem"),
        ("never", "min.insync.replicas", "problem"),
    }


def test_a_login_that_may_only_read_is_told_which_right_is_missing(tmp_path):
    port = ports.choose(tmp_path)
    doors = {"SASL_PLAINTEXT": ports.choose(tmp_path, taken=[port])}
    more = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    embedded = kafka.start(tmp_path, port, doors=doors, more=more)
    try:
        admin = AdminClient({"bootstrap.servers": embedded.bootstrap})
        secret = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        for made in admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion("reader", secret, b"canary")]
        ).values():
            made.result(20)
        admin.create_topics([NewTopic("orders.v1", 2, 1)])["orders.v1"].result(20)
        rights = [
            AclBinding(
                ResourceType.TOPIC,
                "orders.v1",
                ResourcePatternType.LITERAL,
                "User:reader",
                "*",
                right,
                AclPermissionType.ALLOW,
            )
            for right in (AclOperation.READ, AclOperation.DESCRIBE)
        ]
        for made in admin.create_acls(rights).values():
            made.result(20)
        options = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "reader",
            "sasl.password": "canary",
        }
        address = f"127.0.0.1:{doors['SASL_PLAINTEXT']}"
        found = of_topics(SurveyedBroker(address, kafka_options(options)), "orders.v1")
    finally:
        kafka.stop(embedded)

    assert found == {("orders.v1", "topic", "warning"), (f"cluster {address}", "replication.factor", "warning")}
    assert "canary" not in json.dumps(sorted(found))


def _until(holds, seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it did not come to hold"
        time.sleep(0.1)
