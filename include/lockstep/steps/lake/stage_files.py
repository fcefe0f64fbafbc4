"""Leads a batch's rows into files of the lake while they are read.

Rows that something has to look at in staging stay there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from lockstep.core.errors import BadData
from lockstep.core.lake.files import LakeWork, prefix_of, sharing_offsets, sums_of_files
from lockstep.core.lake.iceberg import database_places, lake_places
from lockstep.core.lake.keyed import keyed_places
from lockstep.core.proof.accounting import rows_at
from lockstep.faults import reach
from lockstep.ledger.lake.moves import insert_prefix
from lockstep.ledger.lake.of_tasks import is_preview
from lockstep.ledger.staging.suppression import erased_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg2.extensions import cursor

    from lockstep.adapters.iceberg.table import LakeTable
    from lockstep.core.lake.files import LakeFile, OffsetSums
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.proof.accounting import ManifestLine
    from lockstep.core.staging import StageWork

FilesOfTasks = dict[tuple[int, int], list["LakeFile"]]  # by place and task


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
    targets = folder.pipeline.targets
    reasons = (
        (bool(keyed_places(targets)), "the newest of each key is found there"),
        (folder.transforms, "a transform makes them"),
        (
            len(targets) > 1 and not folder.fans_out,
            "they go into several targets, and a record may give one of them none",
        ),
        (folder.expectations is not None, "expectations judge them before"),
        (folder.pipeline.event_time is not None, "their event time is judged before"),
        (batch_id is not None and is_preview(cur, batch_id), "a preview commits nothing"),
        (bool(erased_columns(cur, folder.pipeline.name)), "keys of it were erased, and staged rows are looked through"),
    )
    if why := next((why for holds, why in reasons if holds), ""):
        return WayIntoLake(by_tasks=False, because=f"rows are staged for {names}: {why}")
    beside = [target.table for target in database_places(targets).values()]
    and_staged = f", and staged beside them for {' and '.join(beside)}" if beside else ""
    return WayIntoLake(by_tasks=True, because=f"rows are written into files of {names} as they are read{and_staged}")


def begin_files(cur: cursor, work: StageWork, tables: Mapping[int, LakeTable]) -> StageWork:
    """Returns the work of tasks that write files, and records where, in the transaction that opens the attempt."""
    lakes = []
    for place, table in tables.items():
        prefix = prefix_of(table.location, work.batch_id, work.token)
        insert_prefix(cur, work.attempt, place, prefix)
        held = set(table.arrow_schema.names)
        columns = tuple(column.name for column in work.tables[place][1] if column.name in held)
        schema = table.arrow_schema.serialize().to_pybytes()
        lakes.append(LakeWork(prefix, schema, columns, table.options, place))
    return replace(work, lakes=tuple(lakes))


def make_folders(work: StageWork) -> None:
    """Makes the folders of the files. A task on a machine that does not see them says so."""
    if not work.lakes:
        return
    from lockstep.adapters.iceberg.folder import make_prefix  # noqa: PLC0415 - few pipelines have a lake table

    for lake in work.lakes:
        make_prefix(lake.prefix)
    reach("lake.prefix_made")


def read_back(work: StageWork, lines: Sequence[ManifestLine]) -> FilesOfTasks:
    """Looks at the files that the winners wrote. Nothing for rows that are staged.

    Each task has read its files back and compared their values. Raises `BadData` unless this process sees the same files,
    and each row once.
    """
    held: FilesOfTasks = {}
    for lake in work.lakes:
        its = {line.task: line.files[lake.place] for line in lines if lake.place in line.files}
        sums = {task: sums_of_files(files) for task, files in its.items()}
        for line in lines:
            if line.task in its:
                _require_counted(work, lake.place, line, sums[line.task])
        _require_seen(work, its)
        held |= {(lake.place, task): [*files] for task, files in its.items()}
    if held:
        reach("lake.looked_back")
    return held


def _require_seen(work: StageWork, told: Mapping[int, Sequence[LakeFile]]) -> None:
    """Refuses a file that is not as its task told, and a row that two files hold."""
    from lockstep.adapters.iceberg.data_file import (  # noqa: PLC0415 - few pipelines have a lake table
        require_as_told,
        require_each_once,
    )

    files = [file for its in told.values() for file in its]
    require_as_told(files, work.batch_id)
    require_each_once([file.path for file in sharing_offsets(files)], work.batch_id)


def _require_counted(work: StageWork, place: int, line: ManifestLine, held: Mapping[int, OffsetSums]) -> None:
    sums, rows = held.get(line.stream_id), rows_at(line, place)
    if (sums[0] if sums else 0) != rows:
        raise BadData(
            f"{work.pipeline}: batch {work.batch_id}: the files of task {line.task} do not hold the {rows} rows of "
            f"stream {line.stream_id} that it counted",
            next_command=f"lockstep batch {work.batch_id}",
        )
