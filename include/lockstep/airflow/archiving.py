"""Copies raw records into files beside each run, if the definition names an archive, also while the pipeline stands."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow.sdk import task

from lockstep.adapters.airflow.names import AirflowSkipException

if TYPE_CHECKING:
    from lockstep.airflow.door import Door
    from lockstep.core.pipeline.definition import Pipeline


def archive_beside(door: Door, pipeline: Pipeline) -> None:
    """Adds the task `archive` beside the steps of a run. It waits for none of them: a blocked pipeline needs it most."""
    if pipeline.archive is None:
        return

    @task
    def archive() -> None:
        """Copies the raw records that retention deletes soon into files of the archive."""
        copy_due(door)

    archive()


def copy_due(door: Door) -> None:
    """Copies what is due. Skips the task if nothing is, so that the files are few."""
    from lockstep.airflow import logs
    from lockstep.steps.upkeep.archive import archive_due

    with door.opened("archive") as at:
        found = archive_due(at, door.folder().pipeline, datetime.now(UTC), sparing=True)
    files = [
        {
            "topic": each.file.offsets.topic_partition.topic,
            "partition": each.file.offsets.topic_partition.partition,
            "from_offset": each.file.offsets.from_offset,
            "until_offset": each.file.offsets.until_offset,
            "records": each.file.records,
        }
        for each in found.copied
    ]
    lines = [f"{each.file.offsets}: {each.file.records:,} records archived" for each in found.copied]
    lines += [f"{each}: deleted before it was archived" for each in found.missed]
    missed = [str(each) for each in found.missed]
    logs.log_facts("archive", lines, {"pipeline": door.pipeline, "archived": files, "missed": missed})
    if not files:
        raise AirflowSkipException("retention deletes nothing soon that is not archived")
