"""Tests the task that shows windows behind each run: where it stands, and what it tells of the watermark."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from lockstep.adapters.airflow.names import AirflowSkipException
from lockstep.airflow import dags_for, watermark, watermark_of
from lockstep.airflow.door import as_airflow_errors
from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline.definition import Append, Count, EventTime, Feed, Json, Pipeline, Topic, Tumbling, Windows
from lockstep.steps.windows import emit as step
from lockstep.steps.windows.emit import Emission
from support.fakes.asset_events import AssetEvents
from windows.conftest import NOON, Timed

FORMAT = Json("id string, at timestamp", key="id")


def windows(table: str, feed: Feed | None = None) -> Windows:
    return Windows(table, window=Tumbling("1 hour"), key=("id",), totals=(Count("records"),), feed=feed)


def pipeline_into(*targets: Windows) -> Pipeline:
    return Pipeline("clicks", "clicks.v1", FORMAT, targets, event_time=EventTime("at"))


def test_both_dags_show_windows_behind_announce_and_send_behind_that():
    first, second = windows("public.by_hour", Feed(to=Topic("by-hour.v1"))), windows("public.again")
    pipeline = pipeline_into(first, second)
    for dag in dags_for(pipeline):
        task = dag.get_task("emit")
        assert (task.upstream_task_ids, task.downstream_task_ids) == ({"announce"}, {"relay"})
        assert (task.trigger_rule, task.retries >= 2) == ("none_failed", True)
        assert [asset.name for asset in task.outlets] == ["public.by_hour.watermark", "public.again.watermark"]
        assert task.inlets == task.outlets
    assert watermark_of(pipeline).uri == "lockstep://public.by_hour/watermark"


def test_a_pipeline_without_windows_has_no_watermark():
    plain = Pipeline("clicks", "clicks.v1", FORMAT, Append("public.clicks"))
    assert not any("emit" in dag.task_ids for dag in dags_for(plain))
    with pytest.raises(BadDefinition, match="watermark_of wants a pipeline with Windows"):
        watermark_of(plain)


class Try:
    """One try of a task: its events are kept if it succeeds."""

    def __init__(self, scene: Any, airflow: AssetEvents, monkeypatch) -> None:
        self.scene, self.airflow, self.pipeline = scene, airflow, scene.pipeline.name
        self.assets = watermark.watermarks_of(scene.pipeline)
        airflow.begin(self.assets)
        monkeypatch.setattr(watermark, "get_current_context", airflow.context)

    def folder(self):
        return self.scene.folder

    @contextmanager
    def opened(self, _step: str):
        with as_airflow_errors():
            yield self.scene.at

    def ends(self, *, is_killed: bool = False) -> str:
        """Returns why the task is skipped, or nothing if it succeeds or dies."""
        try:
            watermark.show_windows(self, self.assets)  # type: ignore[arg-type]
        except AirflowSkipException as skipped:
            return str(skipped)
        if not is_killed:
            self.airflow.succeed()
        return ""


@pytest.fixture
def scene(database, tmp_path):
    made = Timed(database, tmp_path)
    yield made
    made.end()


def test_the_watermark_is_told_once_for_each_rise_also_if_a_try_died(scene, monkeypatch):
    airflow = AssetEvents()

    def told() -> list[dict]:
        return airflow.extras.get("public.house.watermark", [])

    def emit(*, is_killed: bool = False) -> str:
        return Try(scene, airflow, monkeypatch).ends(is_killed=is_killed)

    assert emit() == "the watermark has no time yet"
    for partition in range(3):
        scene.put(partition, 0, 80)
    scene.done()
    assert emit(is_killed=True) == ""
    assert emit() == ""
    at_70 = NOON.replace(minute=1, second=10).isoformat()
    assert told() == [{"watermark": at_70, "windows": 0, "seq": 2}]
    assert scene.shown() == {(-30, "a"): (3, 1), (0, "a"): (3, 1)}
    assert emit() == "the watermark still is 2026-05-01 12:01:10+00:00, and no window is due"
    for partition in range(3):
        scene.put(partition, 500)
    scene.done()
    assert emit() == ""
    assert told()[1:] == [{"watermark": NOON.replace(minute=8, second=10).isoformat(), "windows": 2, "seq": 4}]


def test_a_table_without_news_gets_no_event_beside_one_that_has_some(scene, monkeypatch):
    pipeline = pipeline_into(windows("public.by_hour"), windows("public.again"))
    both = SimpleNamespace(pipeline=pipeline, at=scene.at, folder=SimpleNamespace(pipeline=pipeline))
    airflow = AssetEvents()

    def emit(first: int, second: int) -> str:
        found = Emission(NOON, {"public.by_hour": first, "public.again": second})
        monkeypatch.setattr(step, "emit", lambda *_: found)
        return Try(both, airflow, monkeypatch).ends()

    assert emit(1, 1) == ""
    known = {"watermark": NOON.isoformat(), "seq": None}
    told = {f"public.{name}.watermark": [known | {"windows": 1}] for name in ("by_hour", "again")}
    assert airflow.extras == told
    assert emit(3, 0) == ""
    told["public.by_hour.watermark"].append(known | {"windows": 3})
    assert airflow.extras == told
    assert emit(0, 0).startswith("the watermark still is")
