"""Tests brokers with authentication: SCRAM over TLS and client certificates, by this process and by Spark.

No secret shows.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg2
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from lockstep.cli.exits import Exit
from lockstep.dev.servers import kafka as embedded
from lockstep.dev.servers import ports
from support.oracles.canary import CommandLines, Environments, files_holding, tables_holding
from support.oracles.checker import at_end, check
from support.servers.certificates import Authority
from support.servers.servers import make_topic

PASSWORD = f"canary-{secrets.token_hex(8)}"
PIPELINE = """
from lockstep.core.pipeline.definition import Append, Json, Limits, Pipeline
P = Pipeline(name="{name}", topic="{topic}", format=Json("id string, n int"), target=Append("public.{name}"))
"""
TARGET = """
create table if not exists public.{name} (id text, n int, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null, primary key (_stream, _offset, _ordinal));
"""
DOOR = str(Path(sys.executable).with_name("lockstep"))


@dataclass
class Secured:
    """A broker with three listeners, and the certificates that open them."""

    plain: str
    scram: str
    mutual: str
    ours: Authority
    folder: Path

    def with_password(self, password: str = PASSWORD, ca: Path | None = None) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "lockstep",
            "sasl.password": password,
            "ssl.ca.location": str(ca or self.ours.ca),
        }

    def with_certificate(self, authority: Authority | None = None) -> dict[str, str]:
        client = (authority or self.ours).identity(f"client-{secrets.token_hex(2)}")
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.ours.ca),
            "ssl.certificate.location": str(client.chain),
            "ssl.key.location": str(client.key),
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    home = tmp_path_factory.mktemp("secured")
    ours = Authority(home, "ours")
    server = ours.identity("broker")
    doors: dict[str, int] = {}
    for name in ("SASL_SSL", "SSL"):
        doors[name] = ports.choose(home, taken=doors.values())
    more = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server.both()),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ours.ca),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }
    port = ports.choose(home, taken=doors.values())
    broker = embedded.start(home, port, doors=doors, more=more)
    user = UserScramCredentialUpsertion(
        "lockstep", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), PASSWORD.encode()
    )
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for made in admin.alter_user_scram_credentials([user]).values():
        made.result(20)
    yield Secured(broker.bootstrap, f"127.0.0.1:{doors['SASL_SSL']}", f"127.0.0.1:{doors['SSL']}", ours, home)
    embedded.stop(broker)


@pytest.fixture
def pipeline(secured, database, tmp_path):
    """Returns `pipeline(name)`, which has a topic with 60 records behind the locked listeners, and a table."""

    def make(name: str) -> Path:
        topic = f"{name}-{secrets.token_hex(4)}"
        make_topic(secured.plain, topic, partitions=2)
        producer = Producer({"bootstrap.servers": secured.plain})
        for i in range(60):
            producer.produce(topic, json.dumps({"id": f"r{i}", "n": i}), f"k{i}")
        producer.flush(20)
        folder = tmp_path / "pipelines" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(PIPELINE.format(name=name, topic=topic))
        (folder / "target.sql").write_text(TARGET.format(name=name))
        assert lockstep(database, folder.parent, "", {}, "migrate", name).returncode == 0
        return folder.parent

    return make


def lockstep(
    dsn: str, home: Path, bootstrap: str, options: dict[str, str], *command: str
) -> subprocess.CompletedProcess:
    environ = os.environ | {
        "LOCKSTEP_DSN": dsn,
        "LOCKSTEP_PIPELINES": str(home),
        "LOCKSTEP_KAFKA": bootstrap,
        "LOCKSTEP_KAFKA_CONFIG": json.dumps(options),
        "TMPDIR": str(home.parent),
        "SPARK_MASTER": "local[2]",
    }
    return subprocess.run([DOOR, *command], env=environ, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(
    ("how", "reader"),
    [
        ("scram", "Spark"),
        ("mutual", "this process"),
        pytest.param("scram", "this process", marks=pytest.mark.long),
        pytest.param("mutual", "Spark", marks=pytest.mark.long),
    ],
)
def test_each_reader_gets_in_and_every_record_lands_once(secured, database, pipeline, how, reader):
    home = pipeline(how)
    if reader == "Spark":  # which reads where there is a transform
        (home / how / "transform.py").write_text("def transform(records):\n    return records\n")
    address, options = {
        "scram": (secured.scram, secured.with_password()),
        "mutual": (secured.mutual, secured.with_certificate()),
    }[how]

    done = lockstep(database, home, address, options, "run", how, "--until-idle", "--json")

    assert done.returncode == 0, done.stderr
    assert check(database, secured.plain, how, table=f"public.{how}") + at_end(database, secured.plain, how) == []
    deep = lockstep(database, home, address, options, "verify", how, "--deep")
    assert deep.returncode == 0, deep.stdout + deep.stderr


def test_who_is_not_let_in_is_told_so_in_one_line_and_soon(secured, database, pipeline):
    home = pipeline("stranger")
    theirs = Authority(secured.folder, "theirs")
    wrong = {
        "a wrong password": (secured.scram, secured.with_password("wrong")),
        "a wrong authority": (secured.scram, secured.with_password(ca=theirs.ca)),
        "a certificate of nobody's": (secured.mutual, secured.with_certificate(theirs)),
        "no protocol at all": (secured.scram, {}),
        "a login where none is asked": (secured.plain, secured.with_password()),
        "another program's port": (f"127.0.0.1:{urlsplit(database).port}", {}),
    }

    def refused(what: str) -> None:
        address, options = wrong[what]
        began = time.monotonic()
        done = lockstep(database, home, address, options, "plan", "stranger")
        assert done.returncode == Exit.AWAY, what
        assert time.monotonic() - began < 60, what
        assert len(done.stderr.strip().splitlines()) == 1, (what, done.stderr)
        assert f"Kafka at {address}" in done.stderr, (what, done.stderr)
        assert "Traceback" not in done.stdout + done.stderr

    with ThreadPoolExecutor() as all_at_once:  # each waits for an answer that does not come
        list(all_at_once.map(refused, wrong))


def test_a_bad_option_is_refused_before_anybody_is_asked(secured, database, pipeline):
    home = pipeline("careless")
    done = lockstep(database, home, secured.plain, {"isolation.level": "read_uncommitted"}, "plan", "careless")
    assert done.returncode == 1
    assert "isolation.level is not yours to set" in done.stderr
    done = lockstep(database, home, secured.plain, {"ssl.ca.location": "/nowhere"}, "plan", "careless")
    assert "/nowhere cannot be read" in done.stderr


@pytest.mark.long
def test_no_password_shows_anywhere(secured, database, pipeline, monkeypatch):
    home = pipeline("discreet")
    monkeypatch.setenv("LOCKSTEP_CANARIES", secrets.token_hex(8))
    mark = f"LOCKSTEP_CANARIES={os.environ['LOCKSTEP_CANARIES']}"
    admin = psycopg2.connect(database)
    login, own = f"discreet_{os.getpid()}", f"canary-{secrets.token_hex(8)}"
    roles = "lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader"
    with admin, admin.cursor() as cur:
        cur.execute(f"create role {login} login password '{own}'")
        cur.execute(f"grant {roles} to {login}")
    dsn = re.sub(r"//[^@]+@", f"//{login}:{own}@", database)
    shut_out = re.sub(r"//[^@]+@", f"//{login}:{own}-wrong@", database)
    options, said = secured.with_password(), ""

    with CommandLines() as lines, Environments(mark) as environments:
        broken = home / "discreet" / "transform.py"
        broken.write_text(
            "def transform(r):\n    return r.selectExpr('_stream', '_offset', 'id', 'cast(raise_error(id) as int) as n')\n"
        )
        for command in (("run", "discreet"), ("status", "discreet"), ("batch", "1")):
            done = lockstep(dsn, home, secured.scram, options, *command)
            said += done.stdout + done.stderr
        broken.unlink()
        for command in (  # type: ignore[assignment]
            ("run", "discreet", "--retry", "--json"),
            ("batch", "1", "--json"),
            ("verify", "discreet", "--deep"),
        ):
            done = lockstep(dsn, home, secured.scram, options, *command)
            assert done.returncode == 0, done.stderr
            said += done.stdout + done.stderr
        for refused in ((shut_out, options), (dsn, secured.with_password(f"{PASSWORD}-wrong"))):
            done = lockstep(refused[0], home, secured.scram, refused[1], "plan", "discreet")
            assert done.returncode == Exit.AWAY
            said += done.stdout + done.stderr

    assert len(lines.seen) > 20
    assert [command for command in environments.seen if "java" in command and DOOR not in command]
    for secret in (PASSWORD, own):
        assert secret not in said
        assert lines.holding(secret) == []
        assert [command for command in environments.holding(secret) if DOOR not in command] == []
        assert tables_holding(secret, database, "lockstep", "lockstep_staging", "public") == []
        assert files_holding(secret, home.parent) == []
    with admin, admin.cursor() as cur:
        cur.execute(f"drop role {login}")
    admin.close()
