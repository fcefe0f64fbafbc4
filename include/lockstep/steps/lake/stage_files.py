"""Leads a batch's rows into files of the lake while they are read.

Rows that something has to look at in staging stay there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from lockstep.core.errors import BadData
from lockstep.core.lake.files import LakeWork, digests_of_files, prefix_of, sums_of_files
from lockstep.core.lake.iceberg import lake_places
from lockstep.core.lake.keyed import keyed_places
from lockstep.faults import reach
from lockstep.ledger.lake.moves import insert_prefix
from lockstep.ledger.lake.of_tasks import is_preview
from lockstep.ledger.staging.suppression import erased_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg2.extensions import cursor

    from lockstep.adapters.iceberg.table import LakeTable
    from lockstep.core.lake.files import LakeFile
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.proof.accounting import ManifestLine
    from lockstep.core.staging import StageWork

FilesOfTasks = dict[int, list["LakeFile"]]  # by task


class WayIntoLake(NamedTuple):
    """The way of a batch's rows into the lake: by files that tasks write, or by staging. Says why.

    Says nothing of pipelines without a lake table.
    """

    by_tasks: bool
    because: str


def way_into_lake(cur: cursor, folder: PipelineFolder, batch_id: int | None) -> WayIntoLake:
    """Returns the way of a batch's rows, and of the next live batch's without a `batch_id`."""
    places = lake_places(folder.pipeline.targets)
    if not places:
        return WayIntoLake(by_tasks=False, because="")
    names = " and ".join(places.values())
    reasons = (
        (len(folder.pipeline.targets) > 1, "they go into several targets"),
        (bool(keyed_places(folder.pipeline.targets)), "the newest of each key is found there"),
        (folder.transforms, "a transform makes them"),
        (folder.expectations is not None, "expectations judge them before"),
        (folder.pipeline.event_time is not None, "their event time is judged before"),
        (batch_id is not None and is_preview(cur, batch_id), "a preview commits nothing"),
        (bool(erased_columns(cur, folder.pipeline.name)), "keys of it were erased, and staged rows are looked through"),
    )
    if why := next((why for holds, why in reasons if holds), ""):
        return WayIntoLake(by_tasks=False, because=f"rows are staged for {names}: {why}")
    return WayIntoLake(by_tasks=True, because=f"rows are written into files of {names} as they are read")


def begin_files(cur: cursor, work: StageWork, tables: Mapping[int, LakeTable]) -> StageWork:
    """Returns the work of tasks that write files, and records where, in the transaction that opens the attempt."""
    ((place, table),) = tables.items()
    prefix = prefix_of(table.location, work.batch_id, work.token)
    insert_prefix(cur, work.attempt, place, prefix)
    held = set(table.arrow_schema.names)
    columns = tuple(column.name for column in work.columns if column.name in held)
    return replace(work, lake=LakeWork(prefix, table.arrow_schema.serialize().to_pybytes(), columns, table.options))


def make_folder(work: StageWork) -> None:
    """Makes the folder of the files. A task on a machine that does not see it says so."""
    if work.lake is None:
        return
    from lockstep.adapters.iceberg.folder import make_prefix  # noqa: PLC0415 - few pipelines have a lake table

    make_prefix(work.lake.prefix)
    reach("lake.prefix_made")


def read_back(work: StageWork, lines: Sequence[ManifestLine]) -> FilesOfTasks:
    """Reads the files of the tasks that won back from the store, values and all. Nothing for rows that are staged.

    Raises `BadData` unless they hold what their tasks told, and each row once.
    """
    if work.lake is None or not any(line.files for line in lines):
        return {}
    from lockstep.adapters.iceberg.folder import doubled, look_back_at_values  # noqa: PLC0415 - as above

    held: FilesOfTasks = {}
    places: dict[int, list[object]] = {}
    paths = {line.task: line.files for line in lines if line.files}
    for task, its in paths.items():
        for path in its:
            file, where = look_back_at_values(path, work.batch_id, work.lake.columns)
            held.setdefault(task, []).append(file)
            for stream, rows in where.items():
                places.setdefault(stream, []).append(rows)
    for line in lines:
        found = held.get(line.task, [])
        sums, digest = sums_of_files(found).get(line.stream_id), digests_of_files(found).get(line.stream_id, 0)
        if ((sums[0] if sums else 0), digest) != (line.rows, line.contents):
            raise BadData(
                f"{work.pipeline}: batch {work.batch_id}: the files of task {line.task} do not hold the {line.rows} rows of "
                f"stream {line.stream_id} that it wrote",
                next_command=f"lockstep batch {work.batch_id}",
            )
    for stream, rows in places.items():
        if twice := doubled(rows):
            raise BadData(
                f"batch {work.batch_id}: stream {stream} offset {twice[0]} has two rows with _ordinal {twice[1]}",
                next_command=f"lockstep batch {work.batch_id}",
            )
    if held:
        reach("lake.looked_back")
    return held
