"""Tests one read into tables of the lake and of the database: each has a row of each record, or nothing moves."""

from __future__ import annotations

import json
import random
import threading
from contextlib import suppress
from typing import Any

import pytest

from lake.conftest import InProcess
from lake.test_kills import Stranger, shown
from lake.test_of_tasks import POINTS, failed, staged_rows_of
from lockstep.adapters.processes import this_owner
from lockstep.core.errors import BadData, Refusal
from lockstep.core.lake.iceberg import lake_places
from lockstep.core.planning.decisions import Caller
from lockstep.engine.chosen import ChosenEngine
from lockstep.engine.sinks import writer as writers
from lockstep.faults import InjectedFault
from lockstep.ledger.lake import moves
from lockstep.steps.batch.run import until_idle
from lockstep.steps.lake.sweep import sweep_lake
from lockstep.steps.ranges.stage_once import next_route
from simulation.child import Child
from support.scenes.drill import TARGET
from support.scenes.here import NEWEST

DEFINITION = """
from lockstep import Append, Iceberg, Json, Limits, Pipeline
P = Pipeline(
    name="drill", topic="{topic}", format=Json("id string, n int"), limits=Limits(records=40),
    target=(Append("public.drill"), Append(Iceberg("sales.drill")), Append("public.beside"), Append(Iceberg("sales.lines"))),
)
"""
LAKE_FIRST = DEFINITION.replace(
    'Append("public.drill"), Append(Iceberg("sales.drill"))', 'Append(Iceberg("sales.drill"))'
)
NEWEST_BESIDE = """
from lockstep import Append, Iceberg, Json, Limits, Pipeline, Upsert
P = Pipeline(
    name="drill", topic="{topic}", format=Json("id string, n int"), limits=Limits(records=40),
    target=(Append(Iceberg("sales.drill")), Upsert("public.newest", key=("id",))),
)
"""
FAN_OUT_POINTS = (*POINTS, "task.read_mid", "task.copy_mid", "commit.between_targets", "commit.published")
BECAUSE = (
    "rows are written into files of lockstep.sales.drill and lockstep.sales.lines as they are read, and staged beside them "
    "for public.drill and public.beside"
)
STORM_EVENTS, STORM_SEEDS = 16, (1, 2)


class FannedOut(InProcess):
    """The drill into two tables of the database and two of the lake, read by this process with the product's reader."""

    def each(self) -> list[list[tuple[Any, ...]]]:
        """Returns the rows of all four tables."""
        beside = self.drill.ask("select _stream, _offset, _ordinal, _batch, id, n from public.beside order by 1, 2, 3")
        return [self.in_database(), beside, self.rows("drill"), self.rows("lines")]

    def again(self, count: int) -> None:
        """Sends later records of the first keys, with the numbers behind all others."""
        numbers = [(f"k{i}", json.dumps({"id": f"r{i}", "n": self._sent + i})) for i in range(count)]
        self._send(self.drill.topic, numbers)

    def sent(self) -> int:
        return self._sent


@pytest.fixture
def fan_out(made_lake):
    return made_lake(FannedOut, DEFINITION, TARGET + TARGET.replace("public.drill", "public.beside"))


def require_all(lake: FannedOut) -> list[tuple[Any, ...]]:
    """Returns the rows, which are the same in each table: one of each record that was sent, with its values."""
    first, *others = lake.each()
    assert all(rows == first for rows in others)
    assert sorted(row[4:] for row in first) == sorted((f"r{i}", i) for i in range(lake.sent()))
    assert len({row[:2] for row in first}) == len(first)
    return first


def require_no_garbage(lake: FannedOut) -> None:
    """Sweeps, and finds no file but those of commits, which older snapshots may show, and those of their rewrites."""
    sweep_lake(lake.at.conn)
    paths = lake.drill.ask(
        "select f.path from lockstep.lake_file f join lockstep.lake_commit using (batch_id, token, place)"
    )
    there = {file for file in lake.files() if "/data/lockstep/" in file and "/kept-" not in file}
    assert there == {path.removeprefix(f"file://{lake.lake}/") for (path,) in paths}


def test_each_table_takes_its_rows_from_one_read_and_staging_only_those_of_the_database(fan_out, monkeypatch):
    read, due = ChosenEngine.read, [80, 40]  # rows of two tables of the database, and none of the lake

    def counted(*given: Any) -> Any:
        lines = read(*given)
        assert staged_rows_of(fan_out) == due.pop(0)
        return lines

    assert next_route(fan_out.at, fan_out.engine, fan_out.folder, ()).because.endswith(BECAUSE)
    with monkeypatch.context() as watched:
        watched.setattr(ChosenEngine, "read", counted)
        fan_out.drain()
    assert due == []
    rows = require_all(fan_out)
    said = fan_out.drill.ask("select route ->> 'because' from lockstep.attempt")
    assert all(because.endswith(BECAUSE) for (because,) in said)
    told = fan_out.drill.ask(
        "select place, p.rows, p.records, p.offsets - (select sum(n) from generate_series(first_offset, last_offset) n)"
        " from lockstep.target_rows p join lockstep.result using (batch_id, token, stream_id) where p.rows > 0"
    )
    assert {(place, rows == records, int(off)) for place, rows, records, off in told} == {
        (p, True, 0) for p in range(4)
    }
    # A preview and a replay of what is there, the second with the rows written anew.
    found, _ = fan_out.preview("replay", "0:0", "0:5")
    looked_at = found.document()["targets"]
    assert {its["unchanged"] for its in looked_at.values()} == {20}
    assert looked_at.keys() == {target.table for target in fan_out.folder.pipeline.targets}
    because = fan_out.drill.ask("select route ->> 'because' from lockstep.attempt order by batch_id desc limit 1")
    assert "a preview commits nothing" in because[0][0]
    assert fan_out.replay("0:0", "0:5")
    assert [row[:3] + row[4:] for row in require_all(fan_out)] == [row[:3] + row[4:] for row in rows]
    assert failed(fan_out) == {}
    require_no_garbage(fan_out)


@pytest.mark.long
def test_a_lake_table_may_be_the_first_target(made_lake):
    lake = made_lake(FannedOut, LAKE_FIRST, TARGET.replace("public.drill", "public.beside"))
    lake.drain()
    beside = lake.drill.ask("select _stream, _offset, _ordinal, _batch, id, n from public.beside order by 1, 2, 3")
    assert lake.rows("drill") == lake.rows("lines") == beside
    assert sorted(row[5] for row in beside) == [*range(60)]
    assert failed(lake) == {}


@pytest.mark.long
def test_the_newest_of_a_key_takes_the_read_of_the_table_with_every_record(made_lake):
    lake = made_lake(FannedOut, NEWEST_BESIDE, NEWEST)
    lake.drain()
    lake.again(20)  # other records of the first keys
    lake.drain()
    every = lake.rows("drill")
    newest = {row[4]: row for row in sorted(every, key=lambda row: row[5])}
    assert len(every) == 80
    assert lake.drill.ask("select _stream, _offset, _ordinal, _batch, id, n from public.newest order by n") == sorted(
        newest.values(), key=lambda row: row[5]
    )
    assert len(newest) == 60
    said = lake.drill.ask(
        "select distinct route ->> 'because' ~ 'files of lockstep.sales.drill as they are read' from lockstep.attempt"
    )
    assert said == [(True,)]
    assert failed(lake) == {}


@pytest.mark.long
@pytest.mark.parametrize("point", FAN_OUT_POINTS)
def test_after_a_fault_no_table_shows_a_row_or_each_does(fan_out, monkeypatch, tmp_path, point):
    armed = tmp_path / "armed"
    armed.touch()
    with monkeypatch.context() as arm:
        arm.setenv("LOCKSTEP_FAULT", f"{point}=raise@{armed}")
        with pytest.raises(InjectedFault):
            fan_out.run()
    assert {len(rows) for rows in fan_out.each()} == {40 if point == "commit.done_unacknowledged" else 0}
    fan_out.drain()
    require_all(fan_out)
    assert failed(fan_out) == {}
    require_no_garbage(fan_out)


class Reader(threading.Thread):
    """Reads three tables of one snapshot again and again. Remembers those that differ, or lose a row."""

    def __init__(self, lake: FannedOut) -> None:
        super().__init__(daemon=True)
        self.lake, self.over, self.looks, self.wrong, self.most = lake, threading.Event(), 0, [], 0

    def run(self) -> None:
        while not self.over.wait(0.05):
            with suppress(Refusal, FileNotFoundError):  # an expired file is read from the pointer that follows
                first, *others = shown(self.lake)
                self.wrong += [len(first)] if others != [first] * 2 or len(first) < self.most else []
                self.most, self.looks = max(self.most, len(first)), self.looks + 1


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", STORM_SEEDS)
def test_a_storm_of_kills_replays_and_other_writers_never_shows_tables_that_differ(fan_out, tmp_path, seed):
    chance = random.Random(seed)  # noqa: S311 - a storm is drawn by its seed

    def work() -> dict:
        here = FannedOut(fan_out.drill, fan_out.lake, fan_out.produce)
        return {"done": [r.batch_id for r in until_idle(here.at, here.engine, here.folder, Caller(this_owner()), 20)]}

    stranger, reader = Stranger(fan_out.drill.dsn), Reader(fan_out)
    stranger.start()
    reader.start()
    killed = 0
    for number in range(STORM_EVENTS):
        fan_out.produce(chance.randrange(1, 60))
        point = chance.choice(FAN_OUT_POINTS)
        outcome = Child.fork(tmp_path / f"armed-{number}", f"{point}=kill", work).wait()
        killed += outcome.kind == "killed"
        if chance.random() < 0.3:
            sweep_lake(fan_out.at.conn)
        if chance.random() < 0.2:
            fan_out.drain()
            begin = chance.randrange(20)
            assert fan_out.replay(f"0:{begin}", f"0:{begin + 7}"), (seed, number)
    fan_out.drain()
    for thread in (stranger, reader):
        thread.over.set()
        thread.join(60)
    assert (reader.wrong, reader.looks > 0, killed > STORM_EVENTS // 2, stranger.moves > 0) == ([], True, True, True)
    require_all(fan_out)
    assert failed(fan_out) == {}
    require_no_garbage(fan_out)


@pytest.mark.long
def test_a_row_that_one_table_has_instead_of_another_is_refused_and_named(fan_out, monkeypatch):
    portions = writers.portions

    def other(batch: Any, first: str, tables: Any) -> Any:
        for table, rows in portions(batch, first, tables):
            yield table, rows if table == first else rows.take([1, *range(1, rows.num_rows)])  # the second one twice

    with monkeypatch.context() as wrong:
        wrong.setattr(writers, "portions", other)
        with pytest.raises(
            BadData, match=r"stream [12]: 20 records give one row to each table.* public\.beside has 20"
        ) as told:
            fan_out.run()
    assert told.value.next_command.startswith("lockstep batch ")
    assert fan_out.each() == [[], [], [], []]
    fan_out.drain()
    require_all(fan_out)


@pytest.mark.long
def test_rows_that_change_in_staging_or_in_a_file_s_account_move_no_table(fan_out, monkeypatch):
    from lockstep.steps.batch import run as runs  # noqa: PLC0415 - struck between two steps

    validate = runs.validate

    def changed(*given: Any, **more: Any) -> None:
        validate(*given, **more)
        (attempt,) = (a for a in given if hasattr(a, "token"))
        fan_out.drill.ask(f"update lockstep_staging.{attempt.beside(2)} set n = n + 1 where _offset = 3 returning 1")

    with monkeypatch.context() as wrong:
        wrong.setattr(runs, "validate", changed)
        with pytest.raises(Refusal, match=r"the contents of its .* rows have changed in staging"):
            fan_out.run()
    assert fan_out.each() == [[], [], [], []]
    with monkeypatch.context() as wrong:
        of_attempt = moves.files_of_attempt
        gone = max(lake_places(fan_out.folder.pipeline.targets))
        from lockstep.ledger.lake import of_tasks  # noqa: PLC0415 - its name of the function is replaced

        wrong.setattr(of_tasks, "files_of_attempt", lambda *a: {p: f for p, f in of_attempt(*a).items() if p != gone})
        with pytest.raises(Refusal, match=r"rows are staged for lockstep\.sales.lines"):
            fan_out.run()
    assert fan_out.each() == [[], [], [], []]
