"""Tests that a relay which dies, or stops and wakes up behind another, loses, doubles and disorders nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import closing, suppress
from random import Random

import psycopg2
import pytest

from feed.sending import Sending, read_topic, sent_to
from lockstep.core.errors import Unreachable
from support.scenes.drill import wait_stopped
from support.servers.own_broker import OwnBroker
from support.servers.servers import make_topic

KILLS = (
    "relay.fenced=kill",
    "relay.cursor=kill",
    "relay.intent=kill",
    "relay.begun=kill",
    "relay.mid=kill",
    "relay.flushed=kill",
    "relay.offsets=kill",
    "relay.committed=kill",
    "relay.confirmed=kill",
)
KEYS = 7


def changed(here, n: int, rng: Random) -> None:
    """Commits a set of changes of some keys."""
    keys = rng.sample(range(KEYS), rng.randint(1, KEYS))
    gone = tuple(f"k{key}" for key in keys if rng.random() < 0.2)
    here.change(*((f"k{key}", n) for key in keys if f"k{key}" not in gone), gone=gone)


def relayed_at_last(here) -> None:
    """Tries again while the broker finds its way, as a scheduler does."""
    until = time.monotonic() + 60
    while True:
        try:
            assert here.relay().stopped is None
        except Unreachable:
            assert time.monotonic() < until
            time.sleep(0.5)
        else:
            return


@pytest.fixture
def here(database, kafka, topic):
    here = Sending(database, kafka, sent_to(topic(partitions=3)))
    here.make()
    return here


@pytest.mark.timeout(300)
def test_a_relay_killed_at_each_point_is_continued_by_the_next_one(here, tmp_path):
    rng = Random(0)  # noqa: S311 - spread, not secrecy
    for place, kill in enumerate(KILLS):
        for n in range(10 * place, 10 * place + 3):
            changed(here, n, rng)
        armed = tmp_path / kill
        armed.touch()
        before = here.knows()[0]

        killed = here.started(f"{kill}@{armed}")

        killed.communicate(timeout=60)
        assert (killed.returncode, armed.exists()) == (-signal.SIGKILL, False), f"{kill} was not reached"
        report = here.relay()
        assert report.stopped is None
        ((end,),) = here.ask("select next_number from lockstep.feed")
        # A transaction that was committed is not sent again. Any other one is.
        assert report.sent == (0 if kill in KILLS[-2:] else end - before), kill
        assert here.knows() == (end, None)
    assert here.wrong() == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("point", ["cursor", "intent", "begun", "mid", "flushed", "offsets", "committed"])
def test_e16_a_relay_that_wakes_up_behind_another_sends_nothing_more(here, tmp_path, point):
    rng = Random(1)  # noqa: S311 - the same
    for n in range(4):
        changed(here, n, rng)
    armed = tmp_path / point
    armed.touch()
    stopped = here.started(f"relay.{point}=stop@{armed}")
    wait_stopped(stopped)
    here.lease_runs_out()

    assert here.relay().stopped is None
    changed(here, 9, rng)
    stopped.send_signal(signal.SIGCONT)
    said, errors = stopped.communicate(timeout=90)

    assert said, errors
    assert json.loads(said)["refused"] == "Superseded", said
    assert here.relay().stopped is None
    assert here.wrong() == []


@pytest.mark.timeout(300)
def test_e16_a_relay_that_draws_its_token_behind_another_takes_its_turn_again(here, tmp_path):
    rng = Random(1)  # noqa: S311 - the same
    changed(here, 0, rng)
    armed = tmp_path / "fenced"
    armed.touch()
    stopped = here.started(f"relay.fenced=stop@{armed}")
    wait_stopped(stopped)
    here.lease_runs_out()

    assert here.relay().stopped is None
    before = here.knows()[0]
    changed(here, 9, rng)
    stopped.send_signal(signal.SIGCONT)
    said, errors = stopped.communicate(timeout=90)

    ((end,),) = here.ask("select next_number from lockstep.feed")
    assert json.loads(said) == {"sent": end - before, "stopped": "None"}, said + errors
    assert end > before
    assert here.wrong() == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("point", ["intent", "mid", "committed"])
def test_e17_a_relay_whose_database_session_ends_is_continued_by_the_next_one(here, tmp_path, postgres, point):
    here.change(("a", 1), ("b", 1))
    armed = tmp_path / point
    armed.touch()
    stopped = here.started(f"relay.{point}=stop@{armed}")
    wait_stopped(stopped)
    with closing(psycopg2.connect(postgres)) as conn:
        conn.autocommit = True
        conn.cursor().execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and pid <> pg_backend_pid()"
            " and application_name like 'lockstep%%'",
            (here.dsn.rpartition("/")[2].partition("?")[0],),
        )
    stopped.send_signal(signal.SIGCONT)
    said, errors = stopped.communicate(timeout=90)

    assert json.loads(said)["refused"] == "Unreachable", said + errors
    relayed_at_last(here)
    assert here.knows() == (2, None)
    assert here.wrong() == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("kill", "decisions"), [("relay.restarted=kill", 0), ("relay.decided=kill", 1)])
def test_e21_a_restart_that_dies_is_typed_again(here, tmp_path, kill, decisions):
    here.change(("a", 1), ("b", 1))
    assert here.relay().sent == 2
    here.change(("a", 2))
    armed = tmp_path / kill
    armed.touch()

    killed = here.started(f"{kill}@{armed}", restart_at=1)

    killed.communicate(timeout=60)
    assert (killed.returncode, armed.exists()) == (-signal.SIGKILL, False)
    assert here.ask("select count(*) from lockstep.decision where kind = 'restart-relay'") == [(decisions,)]
    # The decision is there, and the cursor is not where it says. Nothing is sent until it is typed again.
    assert here.relay().sent == (0 if decisions else 1)
    again = here.started(restart_at=1)
    again.communicate(timeout=60)
    numbers = sorted(int(headers["lockstep.number"]) for part in read_topic(here.kafka, here.topic).values()
                     for _, _, headers in part)  # fmt: skip
    assert numbers == sorted([0, 1, 1, 2] + ([] if decisions else [2]))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_broker_that_is_killed_costs_a_try(database, tmp_path):
    broker = OwnBroker(tmp_path / "broker")
    try:
        make_topic(broker.address, "sink", 3)
        here = Sending(database, broker.address, sent_to("sink"))
        here.make()
        rng = Random(2)  # noqa: S311 - the same
        for n in range(5):
            changed(here, n, rng)
        armed = tmp_path / "armed"
        armed.touch()
        stopped = here.started(f"relay.flushed=stop@{armed}")
        wait_stopped(stopped)
        broker.kill()
        stopped.send_signal(signal.SIGCONT)
        said, _ = stopped.communicate(timeout=120)
        assert "sent" in said or json.loads(said)["refused"] == "Unreachable", said
        here.lease_runs_out()
        relayed_at_last(here)
        assert here.wrong() == []
    finally:
        broker.stop()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_storm_of_kills_at_any_moment_loses_doubles_and_disorders_nothing(here):
    seed = int.from_bytes(os.urandom(4))
    rng = Random(seed)  # noqa: S311 - the same
    for n in range(100):
        for _ in range(rng.randint(1, 5)):
            changed(here, n, rng)
        process = here.started()
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=0.5 + rng.random())
        process.kill()
        process.communicate()
    assert here.relay().stopped is None
    assert here.wrong() == [], f"seed {seed}"
