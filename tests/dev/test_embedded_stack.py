"""Tests the embedded stack: started, found again, killed, recovered, stopped. It uses servers of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from confluent_kafka import Consumer, TopicPartition

from lockstep.core.errors import Refusal
from lockstep.dev.records.produce import Errand, produce, sample_named
from lockstep.dev.servers import cluster, kafka, postgres, processes, stack, switch
from lockstep.dev.setup import jars

pytestmark = pytest.mark.server
ON_ITS_OWN = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_")} | {
    "LOCKSTEP_JARS": str(jars.folder())
}
UP = """import sys
from pathlib import Path
from lockstep.dev.servers import switch
switch.start_servers(Path(sys.argv[1]), print)
"""


def silent(_line: str) -> None:
    return


def nothing(_count: int) -> None:
    return


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stack")
    yield folder
    switch.stop_servers(folder, silent)
    postgres.remove_server(folder)


@pytest.fixture
def up(home):
    return switch.start_servers(home, silent, ON_ITS_OWN)


def told(dsn: str, question: str):
    with closing(psycopg2.connect(dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(question)
        return cur.fetchone() if cur.description else None


def on_topic(bootstrap: str, topic: str) -> list[int]:
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "counts"})
    try:
        return [reader.get_watermark_offsets(TopicPartition(topic, part), timeout=10)[1] for part in range(4)]
    finally:
        reader.close()


def kill_everything(running: stack.Stack) -> None:
    for part in (running.postgres, running.broker):
        os.killpg(part.process.pid, signal.SIGKILL)
    while any(part.lives for part in (running.postgres, running.broker)):
        time.sleep(0.01)


def test_the_login_may_make_roles_and_databases_but_is_no_superuser(up):
    assert told(
        up.dsn,
        "select rolname::text, rolcreaterole, rolcreatedb, rolsuper, current_database()::text"
        "  from pg_roles where rolname = current_user",
    ) == ("lockstep", True, True, False, "lockstep")


def test_postgres_keeps_its_word_about_durability_and_time(up, home):
    assert up.postgres.lives
    for setting, value in (
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("TimeZone", "UTC"),
        ("max_connections", "200"),
        ("listen_addresses", "127.0.0.1"),
        ("unix_socket_directories", ""),
    ):
        assert told(postgres.running(home).superuser_dsn, f"show {setting}") == (value,)


def test_nobody_enters_without_the_password(up):
    with pytest.raises(psycopg2.OperationalError, match="password"):
        told(up.dsn.replace("lockstep:", "lockstep:not"), "select 1")


def test_the_password_is_on_no_command_line(up, home):
    assert up.postgres.lives
    password = cluster.secret(home / "postgres").lockstep

    for pid in Path("/proc").glob("[0-9]*"):
        assert password not in processes.command_line(int(pid.name))


def test_what_runs_is_left_alone(up, home):
    assert switch.start_servers(home, silent, ON_ITS_OWN) == up


@pytest.mark.long
def test_two_at_once_start_one_stack(home):
    switch.stop_servers(home, silent)
    twins = [subprocess.Popen([sys.executable, "-c", UP, str(home)], env=ON_ITS_OWN | _path()) for _ in range(2)]

    assert [twin.wait() for twin in twins] == [0, 0]
    after = stack.read(home)
    assert after.postgres.lives
    assert after.broker.lives
    assert kafka.running(home).process == after.broker.process


def test_samples_go_on_where_the_topic_ends(up):
    clicks = sample_named("clicks")
    assert produce(up.kafka, Errand(clicks, 3_000), nothing) == 3_000
    assert produce(up.kafka, Errand(clicks, 5_000, up_to=True), nothing) == 2_000
    assert produce(up.kafka, Errand(clicks, 5_000, up_to=True), nothing) == 0
    ends = on_topic(up.kafka, "clicks.v1")
    assert sum(ends) == 5_000
    assert all(ends)


def test_the_rate_is_kept(up):
    began = time.monotonic()

    produce(up.kafka, Errand(sample_named("orders"), 300, rate=300), nothing)

    assert 0.8 < time.monotonic() - began < 3.0


def test_a_stack_killed_with_everything_comes_back_with_its_data(up, home):
    produce(up.kafka, Errand(sample_named("orders"), 1_000), nothing)
    held = on_topic(up.kafka, "orders.v1")
    told(up.dsn, "create table kept as select 42 as answer")
    kill_everything(up)

    again = switch.start_servers(home, silent, ON_ITS_OWN)

    assert (again.dsn, again.kafka) == (up.dsn, up.kafka)
    assert told(again.dsn, "select answer from kept") == (42,)
    assert on_topic(again.kafka, "orders.v1") == held


@pytest.mark.long
def test_pids_that_passed_to_a_stranger_are_given_up_and_the_stranger_is_spared(up, home, tmp_path):
    data = postgres.running(home).data
    stranger = processes.launch(["/bin/sleep", "600"], log=tmp_path / "log", account=cluster.account())
    kill_everything(up)
    _write_pid(data / "postmaster.pid", stranger.pid)
    (home / "kafka" / "pid").write_text(f"{stranger.pid}\n")

    assert postgres.running(home) is None
    assert kafka.running(home) is None
    again = switch.start_servers(home, silent, ON_ITS_OWN)

    assert told(again.dsn, "select 1") == (1,)
    assert processes.alive(stranger)
    processes.stop_process(stranger, signal.SIGTERM, patience=5.0)


def test_a_stack_whose_state_file_is_gone_is_found_by_what_runs(up, home):
    (home / "stack.json").unlink()

    assert switch.start_servers(home, silent, ON_ITS_OWN) == up


@pytest.mark.long
def test_an_interrupted_start_is_finished_by_the_next(home):
    switch.stop_servers(home, silent)
    starting = subprocess.Popen(
        [sys.executable, "-c", UP, str(home)], env=ON_ITS_OWN | _path(), stderr=subprocess.DEVNULL
    )
    time.sleep(1.2)
    starting.send_signal(signal.SIGINT)
    starting.wait()

    again = switch.start_servers(home, silent, ON_ITS_OWN)

    assert told(again.dsn, "select 1") == (1,)
    assert kafka.answering_cluster(again.kafka, 5.0) is not None


def test_down_stops_both_and_another_down_nothing(up, home):
    switch.stop_servers(home, silent)
    said: list[str] = []

    switch.stop_servers(home, said.append)

    assert not up.postgres.lives
    assert not up.broker.lives
    assert said == []


def test_a_broker_that_is_away_is_refused_with_the_command_that_starts_it():
    with pytest.raises(Refusal, match=r"does not answer.*Next: lockstep dev up"):
        produce("127.0.0.1:1", Errand(sample_named("orders"), 1), nothing)


def test_an_unknown_sample_is_refused_by_naming_the_known():
    with pytest.raises(
        Refusal,
        match="baskets, clicks, events, heartbeats, invoices, orders, page_views, reviews, sales, signups, sold, spend",
    ):
        sample_named("nonsense")


def test_given_addresses_start_nothing(tmp_path):
    given = {"LOCKSTEP_DSN": "postgresql://elsewhere", "LOCKSTEP_KAFKA": "elsewhere:9092"}

    assert switch.start_servers(tmp_path, silent, given).postgres is None
    assert not (tmp_path / "postgres").exists()
    assert not (tmp_path / "kafka").exists()


def _write_pid(file: Path, pid: int) -> None:
    lines = file.read_text().splitlines()
    file.write_text("\n".join([str(pid), *lines[1:], ""]))


def _path() -> dict[str, str]:
    return {"PYTHONPATH": str(Path(stack.__file__).parents[3])}
