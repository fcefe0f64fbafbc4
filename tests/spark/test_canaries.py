"""Tests that secrets do not leak from real runs that succeed and fail.

Each place that takes a secret has its own, and shows it nowhere else.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from lockstep.cli.exits import Exit
from support.oracles.canary import CommandLines, Environments, files_holding, tables_holding

DOOR = str(Path(sys.executable).with_name("lockstep"))
ROLES = "lockstep_owner, lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader"
STORED = """
from lockstep.core.pipeline.definition import AtLeastOnce, Append, Json, Pipeline, Postgres
P = Pipeline(name="stored", topic="{topic}", format=Json("id string, n int"), target=Append("public.stored"),
    guarantee=AtLeastOnce(Postgres("WAREHOUSE")))
"""
READ = """
from lockstep.core.pipeline.definition import Append, Avro, Pipeline
P = Pipeline(name="read", topic="{topic}", format=Avro("id string, n int"), target=Append("public.drill"))
"""
BROKEN = "def transform(r):\n    return r.selectExpr('_stream', '_offset', 'id', 'cast(raise_error(id) as int) as n')\n"
SOUND = "def transform(r):\n    return r\n"


def canary(what: str) -> str:
    return f"canary{what}{secrets.token_hex(6)}"


class Planted:
    """Secrets by name, and the environment that holds each of them where Lockstep takes it."""

    def __init__(self, drill, folder: Path) -> None:
        names = (
            "dsn",
            "kafka",
            "registry",
            "warehouse",
            "targets",
            "spark",
            "jwt",
            "fernet",
            "conn",
            "metadata",
            "pages",
        )
        self.secrets = {name: canary(name) for name in names}
        self.login = f"canary_{os.getpid()}"
        key = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (folder / "signing.pem").write_bytes(key)
        (folder / "signing.pem").chmod(0o600)
        self.secrets["signing key"] = key.decode().splitlines()[1]
        self.mark = f"LOCKSTEP_CANARIES={secrets.token_hex(8)}"
        s = self.secrets
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_T")} | {
            "LOCKSTEP_DSN": re.sub(r"//[^@]+@", f"//{self.login}:{s['dsn']}@", drill.dsn),
            "LOCKSTEP_KAFKA": drill.kafka,
            "LOCKSTEP_REGISTRY": "http://127.0.0.1:9",
            "LOCKSTEP_REGISTRY_CONFIG": json.dumps({"basic.auth.user.info": f"me:{s['registry']}"}),
            "LOCKSTEP_STORE_WAREHOUSE": f"postgresql://u:{s['warehouse']}@127.0.0.1:9/w",
            "LOCKSTEP_SIGNING_KEY": str(folder / "signing.pem"),
            "LOCKSTEP_PIPELINES": str(drill.home),
            "SPARK_CONNECT_AUTHENTICATE_TOKEN": s["spark"],
            "AIRFLOW__API_AUTH__JWT_SECRET": s["jwt"],
            "AIRFLOW__CORE__FERNET_KEY": s["fernet"],
            "LOCKSTEP_AIRFLOW_PASSWORD": s["pages"],
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"postgresql://a:{s['metadata']}@127.0.0.1:9/a",
            "AIRFLOW_CONN_POSTGRES_DEFAULT": json.dumps({"conn_type": "postgres", "password": s["conn"]}),
            "SPARK_MASTER": "local[2]",
            "TMPDIR": str(folder / "tmp"),
            "LOCKSTEP_SPARK_LOG": str(folder / "tmp" / "spark.log"),
        }
        (folder / "tmp").mkdir()
        name, _, value = self.mark.partition("=")
        self.environ[name] = value

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [DOOR, *command], env=self.environ | more, capture_output=True, text=True, check=False, timeout=200
        )


@pytest.fixture
def planted(drill, servers, tmp_path):
    (tmp_path / "own").mkdir()
    made = Planted(drill, tmp_path / "own")
    with closing(psycopg2.connect(servers.postgres().superuser_dsn)) as admin:
        admin.autocommit = True
        act = admin.cursor().execute
        act(f"create role {made.login} login createrole password '{made.secrets['dsn']}'")
        act(f"grant {ROLES} to {made.login} with admin option")
        yield made
        act(f"drop role {made.login}")


@pytest.mark.long
def test_no_secret_shows_where_it_is_not_needed(planted, drill, tmp_path):
    folder = drill.home / "drill"
    (drill.home / "stored").mkdir()
    (drill.home / "stored" / "__init__.py").write_text(STORED.format(topic=drill.topic))
    (drill.home / "stored" / "target.sql").write_text("select 1")
    (drill.home / "read").mkdir()
    (drill.home / "read" / "__init__.py").write_text(READ.format(topic=drill.topic))
    (drill.home / "read" / "target.sql").write_text("select 1")
    out, codes = "", {}

    def do(code: int, *command: str, **more: str) -> None:
        nonlocal out
        done = planted.run(*command, **more)
        out += done.stdout + done.stderr
        codes[" ".join(command), *more] = done.returncode == code or done.stdout + done.stderr

    wrong = planted.environ["LOCKSTEP_DSN"].replace("@", "x@")
    targets = planted.environ["LOCKSTEP_DSN"].replace(planted.secrets["dsn"], planted.secrets["targets"])
    locked = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "me"}
    locked |= {"sasl.password": planted.secrets["kafka"]}  # a broker that asks for it: tests/kafka/test_security.py
    with CommandLines() as lines, Environments(planted.mark) as environments:
        do(0, "migrate", "drill")
        do(Exit.AWAY, "migrate", "drill", LOCKSTEP_TARGETS_DSN=targets)
        (folder / "transform.py").write_text(BROKEN)
        do(Exit.DATA, "run", "drill")
        (folder / "transform.py").write_text(SOUND)
        do(0, "run", "drill", "--retry", "--json", LOCKSTEP_TARGETS_DSN=targets)
        for command in (
            ("status", "drill"),
            ("batch", "1", "--json"),
            ("verify", "drill", "--deep"),
            ("holes", "drill"),
        ):
            do(0, *command)
        do(0, "certificate", "drill", "--batch", "1")
        do(1, "migrate", "stored")
        do(Exit.BLOCKED, "run", "read")  # its table belongs to drill
        do(Exit.AWAY, "status", "drill", LOCKSTEP_DSN=wrong)
        do(Exit.AWAY, "plan", "drill", LOCKSTEP_KAFKA_CONFIG=json.dumps(locked))
        do(1, "plan", "drill", LOCKSTEP_KAFKA_CONFIG=json.dumps(locked | {"sasl.mechanism": "NONE"}))
        do(1, "doctor", "drill", LOCKSTEP_DSN=wrong, LOCKSTEP_KAFKA="127.0.0.1:9")
        (folder / "transform.py").write_text(BROKEN)
        remote = f"sc://127.0.0.1:9/;token={planted.secrets['spark']}"
        do(0, "run", "drill", SPARK_REMOTE=remote)  # idle: no Spark is asked for

    failed = [f"{command}: {said[-600:]}" for command, said in codes.items() if said is not True]
    assert not failed, "\n".join(failed)
    children = [command for command in environments.seen if DOOR not in command]
    assert [command for command in children if "java" in command]
    assert [command for command in children if "worker_daemon" in command or "pyspark" in command]
    assert len(lines.seen) > 20
    shown = {}
    for name, secret in planted.secrets.items():
        shown[name] = [
            *(["what is said"] if secret in out else []),
            *(f"arguments {line!r}" for line in lines.holding(secret)),
            *(f"the environment of {each[:80]}" for each in environments.holding(secret) if DOOR not in each),
            *tables_holding(secret, drill.dsn, "lockstep", "lockstep_staging", "public"),
            *map(str, files_holding(secret, drill.home, tmp_path / "own" / "tmp")),
        ]
    assert {name: places for name, places in shown.items() if places} == {}
    assert not [
        command for command in children if str(tmp_path / "own" / "signing.pem").encode() in environments.seen[command]
    ]
