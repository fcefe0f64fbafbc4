"""Tests a Postgres pair: the standby is promoted while commits stand at fault points, and the old primary lives on."""

from __future__ import annotations

import itertools
import json
import os
import re
from contextlib import closing
from dataclasses import replace

import psycopg2
import pytest
from psycopg2 import sql

from lockstep.adapters.connection.dsn import staging_dsn
from lockstep.adapters.folders import load
from lockstep.adapters.postgres import connect, connect_as_is
from lockstep.core.errors import Unreachable
from lockstep.core.health.findings import Check
from lockstep.core.health.replication_findings import replication_findings
from lockstep.engine.sinks.session import staging_session
from lockstep.ledger.admin.replication import replication_facts
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.attempt import resolve
from lockstep.steps.changes.restored import restored
from lockstep.steps.upkeep.reap import reap
from simulation.child import Child
from support.scenes.drill import Drill, write_folder
from support.scenes.here import ME, Here
from support.servers.pair import Pair

NUMBERS = itertools.count()
BEFORE = ["commit.locked", "commit.fence_ok", "commit.counts_ok", "commit.published", "commit.ledger_written"]
AFTER = "commit.done_unacknowledged"
BY_RANGE = ["range.before_copy", "range.published", "range.before_commit"]
COMMON, ALL = list(range(100)), list(range(150))
LATER = list(range(100, 150))


def made_by(child: list[int]) -> list[int]:
    """Returns the values that a struck process makes of these records. The later runs make others."""
    return [n + 1_000 for n in child]


class Struck:
    """One pipeline in its own database on the pair. 100 records are committed, and 50 more are on their way."""

    def __init__(self, pair: Pair, drill: Drill, produce) -> None:
        self.pair, self.drill, self.child = pair, drill, None
        self.produce = produce

    def prepare(self, guarantee: str) -> None:
        os.environ["LOCKSTEP_PIPELINES"] = str(self.drill.home)
        here = Here(self.drill)
        if guarantee != "PerBatch":
            here.rewrite("import Append,", f"import {guarantee}, Append,")
            here.rewrite("limits=", f"guarantee={guarantee}(), limits=")
        with closing(connect(self.drill.dsn)) as conn:
            migrate_target(conn, load("drill"))
        self.send(COMMON)
        here.drain()
        here.at.close()
        self.send(LATER)

    def send(self, numbers: list[int]) -> None:
        self.produce(self.drill.topic, [(f"k{n}", json.dumps({"id": f"r{n}", "n": n})) for n in numbers])

    def strike(self, point: str, dsn: str) -> None:
        """Starts a process that begins the batch and stands still at the point."""
        os.environ["LOCKSTEP_PIPELINES"] = str(self.drill.home)
        drill = replace(self.drill, dsn=self.here_on(dsn))

        def run() -> dict:
            here = Here(drill)
            here.code = lambda value: value | {"n": value["n"] + 1_000}
            report = here.run()
            return {"went_on": report.went_on, "superseded": bool(report.superseded)}

        self.child = Child.fork(self.drill.home / f"armed-{next(NUMBERS)}", f"{point}=stop", run)  # type: ignore[assignment]
        assert self.child.stopped(60), point  # type: ignore[attr-defined]

    def here_on(self, dsn: str) -> str:
        """Returns the pipeline's own database on this server."""
        return re.sub(r"/\w+(?=\?|$)", f"/{self.drill.dsn.rpartition('/')[2]}", dsn)

    def on(self, dsn: str) -> Here:
        """Returns a user's actions on the pipeline on this server."""
        os.environ["LOCKSTEP_PIPELINES"] = str(self.drill.home)
        return Here(replace(self.drill, dsn=self.here_on(dsn)))


@pytest.fixture
def pair(tmp_path_factory):
    made = Pair(tmp_path_factory.mktemp("pair"))
    yield made
    made.end()


@pytest.fixture
def struck(pair, kafka, topic, produce, tmp_path, monkeypatch):
    """Yields `struck(points)`: a pipeline for each of the points, none of them begun."""
    monkeypatch.setenv("LOCKSTEP_PIPELINES", "")
    made: list[Struck] = []

    def make(points: list[str], guarantee: str = "PerBatch") -> list[Struck]:
        for number, _ in enumerate(points):
            with closing(psycopg2.connect(re.sub(r"/\w+$", "/postgres", pair.primary.dsn))) as conn:
                conn.autocommit = True
                create = sql.SQL("create database {} template lockstep")  # which the pair has migrated
                conn.cursor().execute(create.format(sql.Identifier(f"struck_{number}")))
            name = topic(partitions=2)
            dsn = re.sub(r"/\w+$", f"/struck_{number}", pair.primary.dsn)
            drill = Drill(dsn, kafka, name, write_folder(tmp_path / str(number), name))
            made.append(Struck(pair, drill, produce))
            made[-1].prepare(guarantee)
        return made

    yield make
    for each in made:
        if each.child:
            each.child.kill()


def values(here: Here) -> list[int]:
    return sorted(n for (n,) in here.drill.ask("select n from public.drill"))


def offsets_told(here: Here, *, person=None) -> int:
    """Returns how many offsets `restored` names as told and gone."""
    pipeline = load("drill").pipeline
    found = restored(here.at.conn, here.at.broker, pipeline, None, person)
    return sum(each.span for each in found.evidence.told)


def finish(here: Here, expected: list[int]) -> None:
    """Lets the survivor finish, and checks that it holds every record once, with the right value."""
    here.drain()
    reap(here.at.conn)
    assert values(here) == sorted(expected)
    assert here.drill.violations(rest=True) == []
    assert here.drill.ask("select count(*) from lockstep.batch where state = 'planned'") == [(0,)]
    here.at.close()


STRUCK = pytest.mark.parametrize(
    ("guarantee", "points"),
    [
        ("PerBatch", [*BEFORE, AFTER]),
        pytest.param("PerPartition", [*BY_RANGE, AFTER], marks=pytest.mark.long),
    ],
)


@STRUCK
def test_asynchronous_what_the_old_primary_told_is_named_and_read_again(pair, struck, guarantee, points):
    each = struck(points, guarantee)
    for one, point in zip(each, points, strict=True):
        if point != AFTER:
            one.strike(point, pair.primary.dsn)
    pair.caught_up()
    pair.freeze()
    each[-1].strike(AFTER, pair.primary.dsn)  # its COMMIT is on the old primary alone
    survivor = pair.promote()

    for one in each:
        one.child.go_on()
    told = [one.child.wait().told for one in each]

    assert told == [{"went_on": True, "superseded": False, "reached": True}] * len(points)
    for one in each:
        assert values(one.on(pair.primary.dsn)) == sorted(COMMON + made_by(LATER)), "the old primary has told this"
        here = one.on(survivor)
        assert offsets_told(here, person=ME) == len(LATER)
        finish(here, ALL)


@STRUCK
def test_synchronous_what_was_told_stays_and_the_rest_is_superseded_by_the_survivor(pair, struck, guarantee, points):
    each = struck(points, guarantee)
    pair.synchronous()
    for one, point in zip(each, points, strict=True):
        one.strike(point, pair.dsn)
    survivor = pair.promote()

    for one in each:
        one.child.go_on()
    last = each[-1]
    assert last.child.wait().told == {"went_on": True, "superseded": False, "reached": True}
    finish(last.on(survivor), COMMON + made_by(LATER))  # it was told, and it is so
    for one in each[:-1]:
        here = one.on(survivor)
        assert offsets_told(here) == 0
        finish(here, ALL)
        assert not one.child.stands()
    pair.commit_waits(len(each) - 1)
    pair.kill_primary()  # their COMMITs have waited for a standby that is none any more

    told = [one.child.wait().told for one in each[:-1]]

    if guarantee == "PerBatch":
        assert [answer.get("superseded") for answer in told] == [True] * len(told), told
    else:  # a range whose acknowledgement is lost is told of by nobody: the next try looks for its commit row
        assert all("connection to the ledger's database was lost" in answer["error"] for answer in told), told
    for one in each[:-1]:
        here = one.on(survivor)
        assert values(here) == ALL
        here.at.close()


@pytest.mark.long
def test_synchronous_a_process_whose_primary_died_ends_its_commit_at_the_survivor(pair, struck, monkeypatch):
    monkeypatch.setattr(resolve, "RESOLVE_SECONDS", 40.0)
    points = [*BEFORE, AFTER]
    each = struck(points)
    pair.synchronous()
    for one, point in zip(each, points, strict=True):
        one.strike(point, pair.dsn)
    pair.kill_primary()
    survivor = pair.promote()

    for one in each:
        one.child.go_on()
    told = [one.child.wait().told for one in each]

    assert told == [{"went_on": True, "superseded": False, "reached": True}] * len(points)
    for one in each:
        finish(one.on(survivor), COMMON + made_by(LATER))


def test_a_standby_is_refused_and_a_dsn_of_several_servers_leads_past_it(pair):
    said = "the ledger's database is a standby: it cannot be written, and may show an older state"
    with pytest.raises(Unreachable, match=said) as refused:
        connect(pair.standby.dsn)
    assert "the primary" in str(refused.value.next_command)
    with pytest.raises(ConnectionError, match="read-only"), staging_session(staging_dsn(pair.standby.dsn, "t")) as cur:
        cur.execute("create table lockstep_staging.t (n int)")

    first, then = (f"127.0.0.1:{port}" for port in (pair.standby.port, pair.primary.port))
    several = re.sub(r"@[^/]+/", f"@{first},{then}/", pair.primary.dsn)
    for dsn in (several, f"{several}?target_session_attrs=read-write"):
        with closing(connect(dsn)) as conn, staging_session(staging_dsn(dsn, "t")) as cur:
            cur.execute("select inet_server_port()")
            assert (conn.info.port, cur.fetchone()) == (pair.primary.port, (pair.primary.port,))
    for attrs in ("any", "prefer-standby"):
        with pytest.raises(Unreachable, match=said):
            connect(f"{several}?target_session_attrs={attrs}")
    pair.kill_primary()
    with pytest.raises(
        Unreachable, match=rf"port {pair.primary.port} failed: .*; .*session is read-only|session is read-only; .*"
    ):
        connect(several)


def test_the_doctor_sees_how_the_standby_streams(pair):
    def found() -> tuple[str, str] | None:
        with closing(connect(pair.primary.dsn)) as conn:
            (finding, _) = replication_findings(replication_facts(conn, pair.primary.dsn))
        assert finding is None or finding.check is Check.STANDBYS
        return finding and (str(finding.severity), finding.found)  # type: ignore[return-value]

    assert found() == ("warning", "1 standbys, and this login may not see whether they are synchronous")
    pair.set_primary("grant pg_read_all_stats to lockstep")
    assert found() == ("warning", "empty, and standby streams asynchronously")
    pair.synchronous()
    assert found() is None
    pair.synchronous(names="somebody_else")
    assert found() == ("problem", "somebody_else, and no standby is synchronous now")
    with closing(connect_as_is(pair.standby.dsn)) as conn:
        facts = replication_facts(conn, pair.dsn)
    assert (facts.hosts, facts.session) == (2, "read-write")
