"""Tests a warm Spark on a server: it reads the same records, and its death costs a retry."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.adapters.folders import load
from lockstep.cli.exits import Exit
from lockstep.dev.servers import spark_connect
from lockstep.engine.spark.connect import shared
from support.oracles.checker import check

TESTS = Path(__file__).parent.parent
ID, DDL = "id string, n int", "id text, n int"
RECORDS = [(f"k{i}", b'{"id":"a","n":%d}' % i) for i in range(60)] + [(None, b"no json")]
TWICE = """
def transform(records):
    counts = records.groupBy("id").count()
    return records.join(counts, "id").drop("n").withColumnRenamed("count", "n").withColumn("n", F.col("n").cast("int"))
"""
SHUFFLES = "def transform(records):\n    return records.repartition(3)\n"
LIMITS = "def transform(records):\n    return records.limit(5).unionByName(records.where('n < 0'))\n"
FAILS = """
@F.udf("int")
def boom(n):
    raise ValueError("no such customer")
def transform(r):
    return r.withColumn("n", boom("n"))
"""
START = "from pyspark.sql import functions as F\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    place = tmp_path_factory.mktemp("warm")
    yield place
    if server := spark_connect.running(place):
        spark_connect.kill(server)


@pytest.fixture
def server(home):
    """Returns the server of this file, started anew if a test has ended it."""
    return spark_connect.start(home)


def start(loaded, server, *options: str, **more: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(TESTS.parent / "include"), str(TESTS)])
    environ = os.environ | {"LOCKSTEP_DSN": loaded.dsn, "LOCKSTEP_KAFKA": loaded.kafka, "PYTHONPATH": path}
    command = [str(Path(sys.executable).parent / "lockstep"), "run", loaded.name, "--json", *options]
    environ |= {"SPARK_REMOTE": server.remote, "LOCKSTEP_ENGINE": "spark"} | more
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> tuple[int, dict, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, json.loads(out) if out else {}, err


def run(loaded, server, *options: str, **more: str) -> tuple[int, dict, str]:
    return ended(start(loaded, server, *options, **more))


def violations(loaded) -> list[str]:
    """Returns the violations. The staging of an attempt that failed waits for `reap`."""
    return check(loaded.dsn, loaded.kafka, loaded.name, table=f"public.{loaded.name}")


@pytest.fixture
def source(topic, produce):
    name = topic(partitions=3)
    produce(name, RECORDS)
    return name


@pytest.mark.parametrize("address", ["sc://host:1", "sc://host:1/", "sc://host:1/;use_ssl=true;token=x"])
def test_runs_of_one_code_share_a_session_for_an_hour(address):
    first = shared(address, "a.zip", 7200)
    assert first.startswith(f"{address.rstrip('/')}")
    assert "/;" in first
    assert first == shared(address, "a.zip", 10_799)
    assert len({first, shared(address, "a.zip", 10_800), shared(address, "b.zip", 7200)}) == 3
    assert shared(first, "b.zip", 0) == first, "an address that names a session is somebody's choice"


MEET = """
from lockstep.engine.spark import connect, jvm
session = connect.connected(jvm.JVM_SETTINGS)
print(session.session_id, session.range(3).count())
"""
CLOSE = f"{MEET}session.stop()"
# What is registered first runs last, so it sees the client as the end of the interpreter finds it.
AT_THE_END = f"""
import atexit
atexit.register(lambda: print(session.client.is_closed))
{MEET}"""


@pytest.mark.long
def test_processes_meet_in_one_session_and_leave_it_when_the_server_has_closed_it(server):
    def said(program: str) -> list[str]:
        environ = os.environ | {"SPARK_REMOTE": server.remote}
        out = subprocess.run([sys.executable, "-c", program], env=environ, check=True, capture_output=True, text=True)
        return out.stdout.split()

    first, second, behind = said(MEET), said(CLOSE), said(MEET)

    assert first == second
    assert behind[0] != first[0]
    assert behind[1] == "3"


def test_a_process_that_ends_has_closed_its_client_before_the_interpreter_ends_its_threads(server):
    environ = os.environ | {"SPARK_REMOTE": server.remote}
    done = subprocess.run(
        [sys.executable, "-c", AT_THE_END], env=environ, check=True, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split()[1:] == ["3", "True"]


def test_a_batch_is_staged_on_the_server_and_committed_here(pipeline, source, server):
    loaded = pipeline(source, ID, DDL)
    code, said, err = run(loaded, server)
    assert (code, said["rows_written"], said["rows_rejected"]) == (0, 60, 1), err
    assert loaded.violations() == []
    assert loaded.ask("select spark_application_id is not null from lockstep.attempt") == [(True,)]
    assert loaded.ask("select place, stages, gc_seconds from lockstep.spark_run") == [("server", None, None)]


@pytest.mark.long
def test_each_partition_commits_in_its_own_task_there(pipeline, source, server):
    loaded = pipeline(source, ID, DDL, guarantee="PerPartition()")
    code, said, err = run(loaded, server)
    assert (code, said["rows_written"]) == (0, 60), err
    assert loaded.violations() == []


@pytest.mark.long
def test_a_transform_that_uses_its_records_twice_reads_them_once(pipeline, source, server):
    loaded = pipeline(source, ID, DDL, transform=START + TWICE)
    code, _, err = run(loaded, server)
    assert code == 0, err
    assert loaded.ask(f"select distinct n, count(*) from public.{loaded.name} group by 1") == [(60, 60)]
    assert loaded.violations() == []


@pytest.mark.parametrize(
    ("transform", "more", "code", "words"),
    [
        (SHUFFLES, {"guarantee": "PerPartition()"}, Exit.REFUSED, "transform.py shuffles"),
        (LIMITS, {}, Exit.DATA, "must not use limit"),
        (FAILS, {}, Exit.DATA, "ValueError: no such customer"),
        (
            "def transform(r):\n    return r.select('nope')\n",
            {},
            Exit.REFUSED,
            "transform.py fails: AnalysisException: [UNRESOLVED_COLUMN",
        ),
    ],
)
def test_what_a_transform_must_not_do_is_one_line_here_too(pipeline, source, server, transform, more, code, words):
    loaded = pipeline(source, ID, DDL, transform=START + transform, **more)
    ended_with, _, err = run(loaded, server)
    assert (ended_with, err.count("\n")) == (code, 1), err
    assert words in err
    assert loaded.ask(f"select count(*) from public.{loaded.name}") == [(0,)]


def test_code_that_was_changed_since_the_server_started_is_the_code_that_runs(pipeline, source, server):
    decode = 'import json\ndef decode(key, value, headers):\n    return {"id": "%s", "n": json.loads(value)["n"]}\n'
    loaded = pipeline(source, ID, DDL, form=f'Custom("{ID}")')
    path = load(loaded.name).path / "decode.py"
    path.write_text(decode % "first")
    assert run(loaded, server)[0] == 0
    assert loaded.ask(f"select distinct id from public.{loaded.name}") == [("first",)]


@pytest.mark.long
def test_several_pipelines_share_it(pipeline, source, server):
    several = [pipeline(source, ID, DDL), pipeline(source, ID, DDL)]
    folders = [load(each.name).path for each in several]
    processes = [
        start(each, server, LOCKSTEP_PIPELINES=str(folder.parent))
        for each, folder in zip(several, folders, strict=True)
    ]
    assert [ended(process)[0] for process in processes] == [0, 0]
    assert [each.violations() for each in several] == [[], []]


@pytest.mark.long
def test_a_server_that_is_away_is_one_line_and_costs_a_retry(pipeline, source, server, home):
    loaded = pipeline(source, ID, DDL)
    spark_connect.kill(server)
    code, _, err = run(loaded, server)
    assert (code, err.count("\n")) == (Exit.AWAY, 1), err
    assert "does not answer" in err
    assert "lockstep dev up --spark-connect" in err

    again = spark_connect.start(home, server.port)
    code, said, err = run(loaded, again)
    assert (code, said["rows_written"]) == (0, 60), err
    assert violations(loaded) == []


@pytest.mark.long
def test_a_server_that_dies_while_it_reads_costs_a_retry(pipeline, source, server, home):
    slow = START + "import time\n@F.udf('int')\ndef slow(n):\n    time.sleep(0.2)\n    return n\n"
    loaded = pipeline(source, ID, DDL, transform=slow + "def transform(r):\n    return r.withColumn('n', slow('n'))\n")
    process = start(loaded, server)
    while not loaded.ask("select 1 from lockstep.attempt where spark_application_id is not null"):
        assert process.poll() is None, process.communicate()
    spark_connect.kill(server)
    code, _, err = ended(process)
    assert (code, err.count("\n")) == (Exit.AWAY, 1), err
    assert loaded.ask("select state, fault from lockstep.attempt") == [("failed", "surroundings")]

    again = spark_connect.start(home, server.port)
    assert run(loaded, again)[0] == 0
    assert violations(loaded) == []


# It comes in with the token first, so that all is imported before it becomes another user of the machine.
WITHOUT = """
import os, sys
from pyspark.sql import SparkSession
from pyspark.sql.connect.client.retries import DefaultPolicy

def count(address):
    session = SparkSession.builder.remote(address).create()
    session.client.set_retry_policies([DefaultPolicy(max_retries=1)])
    return session.range(3).count()

print("owner", count(sys.argv[1]), flush=True)
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
print("other", count(sys.argv[2]), flush=True)
"""


@pytest.mark.parametrize("given", ["", ";token=wrong"])
def test_without_the_token_another_user_of_the_machine_is_not_let_in(server, given):
    environ = {name: value for name, value in os.environ.items() if "SPARK" not in name}
    command = [sys.executable, "-c", WITHOUT, server.remote, f"sc://localhost:{server.port}/{given}"]
    done = subprocess.run(command, env=environ, check=False, capture_output=True, text=True)

    assert done.stdout.split() == ["owner", "3"], done.stderr[-2000:]
    assert done.returncode != 0
    assert "UNAUTHENTICATED" in done.stderr or "authentication token" in done.stderr, done.stderr[-2000:]


def test_the_token_is_in_no_argument_and_no_log_and_no_transform_sees_it(server, home):
    token = spark_connect.token_of(home)
    file = home / "spark" / "token"
    assert file.stat().st_mode & 0o077 == 0
    assert file.parent.stat().st_mode & 0o077 == 0
    assert token not in repr(server)
    spoken = [
        place.read_bytes().replace(b"\0", b" ") for place in Path("/proc").glob("[0-9]*/cmdline") if readable(place)
    ]
    assert any(b"SparkConnectServer" in words for words in spoken), "the server itself was looked at"
    assert not any(token.encode() in words for words in spoken)
    assert token not in (home / "spark" / "console.log").read_text()


def readable(place: Path) -> bool:
    try:
        place.read_bytes()
    except OSError:
        return False
    return True
