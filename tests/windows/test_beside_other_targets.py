"""Tests windows beside other targets of one pipeline: every target has its rows, and each is verified by itself."""

from __future__ import annotations

import io
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import pytest

from lockstep.adapters.folders import load_from
from lockstep.adapters.postgres import connect
from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline.definition import Accumulate, Append, Tumbling
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.proof.verify import verify
from simulation.engine import RememberedEngine
from simulation.pipeline import DDL, TOTALS
from simulation.scene import COMMITTED, told

DEFINITION = """from lockstep.core.pipeline.definition import Append, Count, EventTime, Json, Pipeline, Tumbling, Windows
P = Pipeline(
    name="both", topic="both.v1", format=Json("id string, at timestamp"), event_time=EventTime("at", delay="1 second"),
    target=(Append("public.raw"), Windows("public.both", window=Tumbling("1 minute"), key=("id",), totals=(Count("n"),))),{}
)
"""
SUITE = '{"name": "s", "expectations": [{"type": "expect_column_to_exist", "kwargs": {"column": "id"}}]}'


@pytest.fixture
def beside(timed):
    """Returns windows of two kinds, between a target of all records and one of totals by key. All get the same rows."""
    scene = timed()
    windows = scene.pipeline.first
    minutes = replace(windows, table="public.house_minutes", window=Tumbling("60 seconds"))
    totals = Accumulate("public.house_totals", key=("id",), totals=TOTALS)
    target = (Append("public.house_raw"), windows, minutes, totals)
    names = {"appended": "house_raw", "windowed": "house_minutes", "accumulated": "house_totals"}
    ddl = "".join(DDL[kind].replace("public.house ", f"public.{name} ") for kind, name in names.items())
    ddl += "alter table public.house_raw add column at timestamptz;"
    scene.pipeline = replace(scene.pipeline, target=target)
    scene.folder = replace(scene.folder, pipeline=scene.pipeline, target_sql=ddl)
    with closing(connect(scene.dsn)) as conn:
        migrate_target(conn, scene.folder)
    return scene


class Parted(RememberedEngine):
    """An engine of which the first target gets the rows of the key `a` alone, and the others get all."""

    def _line(self, item, task, rows):
        line = super()._line(item, task, rows)
        first = sum(row.split("\t")[10] == "a" for row in rows.getvalue().splitlines())
        rows_of = (first, *line.rows_of[1:])
        return replace(line, rows=sum(rows_of), rows_of=rows_of)

    def _copy(self, work, rows):
        every = rows.getvalue().splitlines(keepends=True)
        of_a = io.StringIO("".join(row for row in every if row.split("\t")[10] == "a"))
        first, *others = work.tables
        super()._copy(SimpleNamespace(tables=[first], stager=work.stager), of_a)  # type: ignore[arg-type]
        super()._copy(SimpleNamespace(tables=others, stager=work.stager), rows)  # type: ignore[arg-type]


def not_proved(scene) -> list[str]:
    deep = verify(scene.at.conn, scene.at.broker, scene.folder, deep=True)
    return [f"{check.name}: {check.detail}" for check in deep if not check.ok]


def counts(scene) -> dict[str, int]:
    """Returns the records of each key in its totals."""
    return dict(scene.ask("select id, records from public.house_totals"))


def written(path, more: str = "") -> None:
    (path / "__init__.py").write_text(DEFINITION.format(more))


def test_a_pipeline_with_windows_and_another_target_is_loaded_and_keeps_no_bytes(tmp_path):
    written(tmp_path)
    folder = load_from(tmp_path, "both")
    assert not folder.quarantines, "an event at no time of a window refuses its batch, and nothing is put aside"
    first = replace(folder, pipeline=replace(folder.pipeline, target=folder.pipeline.windows[0]))
    assert first.quarantines


def test_a_quarantine_of_several_targets_is_refused_as_before(tmp_path):
    written(tmp_path, ' on_violation="quarantine",')
    (tmp_path / "expectations.json").write_text(SUITE)
    with pytest.raises(BadDefinition, match="on_violation: the suite judges the first target alone"):
        load_from(tmp_path, "both")


def test_every_target_has_its_rows_also_behind_replays_and_admissions_and_verify_proves_each(beside):
    beside.put(0, 0, 30, 80, key="a")
    beside.put(1, 10, 70, key="b")
    beside.put(2, 20, 90, key="a")
    beside.done()
    assert beside.emit() == {"public.house": 4, "public.house_minutes": 2}
    for partition in range(3):
        beside.put(partition, 500)
    beside.done()
    beside.put(1, 5, key="b")
    beside.done()
    assert counts(beside) == {"a": 8, "b": 3}
    assert len(beside.late()) == 3
    assert not_proved(beside) == []

    assert beside.redo("replay", {0: 0, 1: 0, 2: 0}, None)["committed"] != []
    beside.admit()

    assert beside.late() == []
    assert counts(beside) == {"a": 8, "b": 3}
    assert beside.ask("select count(*) from public.house_raw") == [(11,)]
    assert not_proved(beside) == []


def test_an_event_at_no_time_of_a_window_refuses_the_batch_and_nothing_of_it_is_written(beside):
    beside.put(0, 0, "9999-12-31T23:59:59Z")
    said = told(beside.done)
    assert said != COMMITTED
    assert "the event at house.v1-0 offset 1 is at 9999-12-31 23:59:59+00" in said
    assert counts(beside) == {}


@pytest.mark.parametrize("portions", [(2,), (1, 1)], ids=str)
def test_the_newest_event_of_any_target_moves_the_time_wherever_a_batch_ends(timed, monkeypatch, portions):
    scene = timed()
    windows = scene.pipeline.first
    target = (windows, replace(windows, table="public.house_minutes"))
    scene.pipeline = replace(scene.pipeline, target=target)
    ddl = DDL["windowed"].replace("public.house ", "public.house_minutes ")
    scene.folder = replace(scene.folder, pipeline=scene.pipeline, target_sql=ddl)
    with closing(connect(scene.dsn)) as conn:
        migrate_target(conn, scene.folder)
    monkeypatch.setattr(scene, "_engine", lambda: Parted(scene.folder, scene.log, scene.dsn))
    for partition in (1, 2):
        scene.put(partition, 900, key="b")
    records = iter([(0, "a"), (600, "b")])
    for portion in portions:
        for _ in range(portion):
            at, key = next(records)
            scene.put(0, at, key=key)
        scene.done()
    assert scene.watermark() == 590
