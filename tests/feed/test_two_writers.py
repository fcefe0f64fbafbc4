"""Tests that two pipelines that write one table side by side number their changes in the order of their commits.

Their sessions are killed, and in the longer test their processes, at every point of the way and in two lanes each.
"""

from __future__ import annotations

import json
import os
import random
import threading
from contextlib import closing, suppress
from datetime import UTC, datetime

import psycopg2
import pytest

from feed.test_chain import INCLUDE, Chain
from lockstep.adapters.folders import load
from lockstep.core.errors import Refusal
from lockstep.core.planning.bounds import AtOffsets
from lockstep.core.planning.decisions import Caller
from lockstep.core.states import Lane
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.run import run, until_idle
from lockstep.steps.requests import requests
from simulation.storm import ON_THE_WAY, REPLAYS_ONLY
from support.fakes.plain_engine import PlainEngine
from support.oracles.folded import not_folded
from support.scenes.here import ME, Here

DEFINITION = """
from lockstep import Feed, Json, Limits, Pipeline, Upsert
P = Pipeline(
    name="{name}", topic="{topic}", format=Json("id string, n int"), limits=Limits(records=15),
    target=Upsert("public.shared", key=("id",), order_by="n", shared_with=("{other}",), feed=Feed(keep="1 day")),
)
"""
TARGET = """create table if not exists public.shared (id text primary key, n int, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null);"""
# Those that are reached without Spark.
POINTS = {point for point in ON_THE_WAY if not point.startswith(("task.", "stage.session"))}
POINTS |= {*REPLAYS_ONLY, "changes.opened", "changes.netted", "changes.numbered"}
STRIKE = """select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and xact_start is not null
    and usename = 'lockstep' and query like '%%lockstep%%' and pid <> pg_backend_pid() order by random() limit 1"""


@pytest.fixture
def shared(drill, topic, produce):
    """Makes two pipelines with a topic each, and one table whose rows both change."""
    for name, other in (("one", "two"), ("two", "one")):
        log = topic(partitions=2)
        folder = drill.home / name
        folder.mkdir()
        (folder / "__init__.py").write_text(DEFINITION.format(name=name, other=other, topic=log))
        (folder / "target.sql").write_text(TARGET)
        produce(
            log, [(f"k{i % 11}", json.dumps({"id": f"r{i % 11}", "n": i * 2 + (name == "two")})) for i in range(300)]
        )
    here = Here(drill)
    for name in ("one", "two"):
        migrate_target(here.at.conn, load(name))
    yield drill
    here.at.close()


def drains(drill, name: str, replays: int) -> None:
    """Commits the pipeline's log and then replays it, through sessions that are struck."""
    left = replays
    while True:
        here = Here(drill)
        folder, caller = load(name), Caller(name, take_over=True, retry=True)
        engine = PlainEngine(folder, drill.kafka, drill.dsn)
        with closing(here.at), suppress(Refusal, psycopg2.Error):
            while run(here.at, engine, folder, caller).went_on:
                pass
            if not left:
                return
            left -= 1
            wanted = requests.NewRequest(Lane.REPLAY, AtOffsets({0: 0, 1: 0}), None)
            asked = requests.open_request(here.at.conn, here.at.broker, folder, wanted, ME, datetime.now(UTC))
            list(until_idle(here.at, engine, folder, caller, wait=0, request_id=asked.request_id))


@pytest.mark.timeout(300)
def test_e12_numbers_of_two_pipelines_have_no_gap_and_folded_they_are_the_table(shared, postgres):
    over, rng = threading.Event(), random.Random(7)  # noqa: S311 - any seed will do
    database = shared.ask("select current_database()")[0][0]

    def strikes() -> None:
        with closing(psycopg2.connect(postgres, dbname=database)) as conn:
            conn.autocommit = True
            while not over.wait(0.1 + rng.random() / 5):
                conn.cursor().execute(STRIKE)

    writers = [threading.Thread(target=drains, args=(shared, name, 1)) for name in ("one", "two")]
    striker = threading.Thread(target=strikes)
    for thread in (*writers, striker):
        thread.start()
    for thread in writers:
        thread.join(240)
    over.set()
    striker.join(20)

    assert not any(thread.is_alive() for thread in writers)
    told = shared.ask(
        "select b.pipeline, count(*), sum(c.changes) from lockstep.change_set c join lockstep.batch b using (batch_id)"
        " where b.lane = 'live' group by 1 order by 1"
    )
    assert [name for name, *_ in told] == ["one", "two"]
    assert all(sets >= 20 for _, sets, _ in told)
    assert not_folded(shared.ask, "public.shared") == []
    assert shared.ask("select id, n from public.shared order by id limit 1") == [("r0", 297 * 2 + 1)]


KILLED_COMMITS = 300


def records_of_round(rng: random.Random, first: int) -> list[tuple[str, str]]:
    """Returns some records of eleven keys. No other record has the same `n`."""
    keys = [f"r{rng.randrange(11)}" for _ in range(rng.randint(5, 25))]
    return [(key, json.dumps({"id": key, "n": first + at})) for at, key in enumerate(keys)]


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_e12_two_pipelines_whose_lanes_are_killed_at_every_point_leave_no_gap(shared, produce, tmp_path):
    seed = int.from_bytes(os.urandom(4))
    environ = {name: text for name, text in os.environ.items() if not name.startswith("LOCKSTEP_")}
    environ |= {"LOCKSTEP_DSN": shared.dsn, "LOCKSTEP_KAFKA": shared.kafka, "LOCKSTEP_PIPELINES": str(shared.home)}
    environ |= {"PYTHONPATH": os.pathsep.join([str(INCLUDE), str(INCLUDE.parent / "tests")])}
    chain = Chain(tmp_path, environ, random.Random(seed))  # noqa: S311 - spread, not secrecy
    newest: dict[str, int] = {f"r{i}": max(j for j in range(300) if j % 11 == i) * 2 + 1 for i in range(11)}
    topics, first, rounds = {name: load(name).pipeline.topic for name in ("one", "two")}, 1_000, 0

    def commits() -> int:
        ((found,),) = shared.ask("select count(*) from lockstep.change_set where seq is not null")
        return int(found)

    while commits() < KILLED_COMMITS or not set(chain.struck) >= POINTS:
        rounds += 1
        for topic in topics.values():
            made = records_of_round(chain.rng, first)
            first += len(made)
            produce(topic, made)
            newest |= {key: json.loads(value)["n"] for key, value in made}
        left = tuple(sorted(POINTS - set(chain.struck) or POINTS))
        lanes = [(name, *lane) for name in topics for lane in ((), ("--replay", str(chain.rng.randrange(120))))]
        for started in [chain.start(*lane, points=left) for lane in lanes]:
            chain.end(started)
        if rounds % 10 == 0:
            assert not_folded(shared.ask, "public.shared") == [], f"seed {seed}"

    for name in topics:
        chain.call(name, "--until-idle")
        while shared.ask("select from lockstep.request where pipeline = %s and closed_at is null", name):
            chain.call(name, "--replay", "0")
    assert not_folded(shared.ask, "public.shared") == [], f"seed {seed}"
    assert dict(shared.ask("select id, n from public.shared")) == newest, f"seed {seed}"
    for name in topics:
        assert "every check holds" in chain.call("verify", name, "--deep"), f"seed {seed}"
