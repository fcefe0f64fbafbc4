"""Tests a hundred failovers during COMMIT: a synchronous standby is promoted, and the old primary becomes its standby.

One process runs a batch through a DSN of both servers. It must end with its batch committed, and with no doubt left.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from contextlib import closing

import psycopg2
import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import connect
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.upkeep.reap import reap
from simulation.child import Child, Outcome
from support.scenes.drill import Drill, write_folder
from support.scenes.here import Here
from support.servers.pair import Pair

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]
PROMOTIONS = 100
RECORDS = 10  # a round
ROWS = "select count(*), count(distinct n), sum(n) from public.drill"
KINDS = ("lost", "arrived", "any moment")


@pytest.fixture
def pair(tmp_path_factory):
    made = Pair(tmp_path_factory.mktemp("pair"))
    yield made
    made.end()


@pytest.fixture
def promoted(pair, kafka, topic, tmp_path, monkeypatch):
    """Returns an empty pipeline whose DSN names both servers. The standby comes first in every other round."""
    with closing(psycopg2.connect(re.sub(r"/\w+$", "/postgres", pair.primary.dsn))) as conn:
        conn.autocommit = True
        conn.cursor().execute("create database promoted template lockstep")
    name = topic(partitions=2)
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(tmp_path / "pipelines"))
    drill = Drill(re.sub(r"/\w+(?=\?)", "/promoted", pair.dsn), kafka, name, write_folder(tmp_path, name))
    with closing(connect(drill.dsn)) as conn:
        migrate_target(conn, load("drill"))
    return drill


def strike(pair: Pair, kind: str, child: Child, chance: random.Random) -> None:
    """Ends the primary while the process commits.

    The commit record is lost with it, or has arrived at the standby without an answer, or one of both.
    """
    if kind == "lost":
        pair.freeze()
    if kind == "arrived":
        pair.ask(pair.standby, "select pg_wal_replay_pause()")  # so that nothing is confirmed as applied
    child.go_on()
    if kind == "any moment":
        time.sleep(chance.uniform(0, 0.03))
    else:
        pair.commit_waits()
        os.kill(child.pid, signal.SIGSTOP)  # until somebody has looked at what the survivor has
    if kind == "arrived":
        pair.received()
    pair.fail_over(dies_first=kind != "lost" and chance.random() < 0.5)


def knows_it(said: Outcome, batch: int) -> bool:
    """Returns True if the process says that it committed the batch. The ledger may go away once more behind that."""
    if said.kind == "refused":
        return f"drill: batch {batch} is committed, and its figures cannot be read" in said.told["error"]
    return (said.kind, said.told) == ("ok", {"went_on": True, "superseded": False, "reached": True})


def test_a_standby_promoted_during_commit_a_hundred_times_loses_and_doubles_nothing(pair, promoted, produce):
    chance, sent = random.Random(23), 0  # noqa: S311 - chance, and no secret
    for number in range(PROMOTIONS):
        kind = KINDS[number % len(KINDS)]
        pair.synchronous(on="remote_apply" if kind == "arrived" else "on")
        produce(promoted.topic, [(f"k{n}", json.dumps({"id": f"r{n}", "n": n})) for n in range(sent, sent + RECORDS)])
        sent += RECORDS

        def run() -> dict:
            report = Here(promoted).run()
            return {"went_on": report.went_on, "superseded": bool(report.superseded)}

        child = Child.fork(promoted.home / f"armed-{number}", "commit.ledger_written=stop", run)
        assert child.stopped(60), number
        ((batch, token),) = promoted.ask("select batch_id, token from lockstep.batch where state = 'planned'")
        strike(pair, kind, child, chance)
        survived = promoted.ask("select distinct token from lockstep.commit where batch_id = %s", batch)
        os.kill(child.pid, signal.SIGCONT)

        said = child.wait()

        where = (number, kind, said)
        assert knows_it(said, batch), where
        assert kind == "any moment" or survived == {"lost": [], "arrived": [(token,)]}[kind], where
        assert promoted.ask("select distinct token from lockstep.commit where batch_id = %s", batch) == [(token,)], (
            where
        )
        assert promoted.ask(ROWS) == [(sent, sent, sum(range(sent)))], where
        assert promoted.ask("select count(*) from lockstep.batch where state <> 'committed'") == [(0,)], where
        pair.rebuild()
    with closing(connect(promoted.dsn)) as conn:
        reap(conn)  # staging tables of processes that found no ledger behind their commit
    assert promoted.violations(rest=True) == []
    assert promoted.ask("select count(*) from lockstep.batch") == [(PROMOTIONS,)]
