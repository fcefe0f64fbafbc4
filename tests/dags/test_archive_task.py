"""Tests the task that archives beside each run: where it stands, what it copies, and when it skips."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import ConfigResource

from lockstep.adapters.airflow.names import AirflowSkipException
from lockstep.airflow import archiving, dags_for
from lockstep.core.pipeline.definition import Append, Archive, Json, Pipeline
from support.scenes.here import Here
from support.scenes.odd_logs import alter

PIPELINE = Pipeline("clean", "clicks.raw", Json("id string"), Append("public.clicks"))
HOUR = 3_600_000


def test_the_live_dag_alone_archives_and_waits_for_no_step():
    live, history = dags_for(replace(PIPELINE, archive=Archive("file:///srv/archive")))
    assert set(live.task_ids) - set(dags_for(PIPELINE)[0].task_ids) == {"archive"}
    assert "archive" not in history.task_ids
    task = live.get_task("archive")
    assert (task.upstream_task_ids, task.downstream_task_ids) == (set(), set())
    assert task.retries >= 2


@pytest.mark.long
def test_the_task_copies_what_goes_within_half_the_time_and_skips_otherwise(drill, tmp_path):
    here = Here(drill)
    here.rewrite("import Append,", "import Append, Archive,")
    here.rewrite("limits=", f'archive=Archive("file://{tmp_path}/a", within="8h"), limits=')
    here.drain()

    @contextmanager
    def opened(step):
        assert step == "archive"
        yield here.at

    door: Any = SimpleNamespace(pipeline="drill", opened=opened, folder=lambda: here.folder)

    def keep(hours: int) -> None:
        alter(drill.kafka, ConfigResource.Type.TOPIC, drill.topic, [("retention.ms", str(hours * HOUR))])

    for hours in (24, 6):  # at six hours the records are due, and none of them soon
        keep(hours)
        with pytest.raises(AirflowSkipException, match="retention deletes nothing soon that is not archived"):
            archiving.copy_due(door)
    keep(3)
    archiving.copy_due(door)
    counts = drill.ask("select records, upper(offsets) from lockstep.archived")
    assert sum(records for records, _ in counts) == 150
    assert all(records == until for records, until in counts)
    with pytest.raises(AirflowSkipException):
        archiving.copy_due(door)
    here.at.close()
