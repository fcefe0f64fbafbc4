"""Commits a batch whose results go into the lake, too: files first, then a prepared move, then one transaction.

The transaction compares each pointer with what its move was prepared on. No network is asked while it is open (T6).
"""

from __future__ import annotations

import json
import random
import time
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from uuid import uuid4

from lockstep.adapters.postgres import COMMITTER, READER, transaction
from lockstep.core.errors import BadData, LakeMoved, Refusal
from lockstep.core.lake.files import MAX_RANGES_SIZE, prefix_of, sums_of_files
from lockstep.core.lake.iceberg import lake_places
from lockstep.core.lake.keyed import keyed_places
from lockstep.core.states import BatchState, Lane
from lockstep.faults import reach
from lockstep.ledger.batch import attempts
from lockstep.ledger.batch import commit as ledger
from lockstep.ledger.batch.same_definition import require_promoted, require_same_definition
from lockstep.ledger.lake import moves
from lockstep.ledger.staging.contents import require_staged
from lockstep.steps.lake.keyed import keyed_move, prepare_keys
from lockstep.steps.lake.open_tables import open_fitting, require_own_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lockstep.adapters.iceberg.table import LakeTable
    from lockstep.core.lake.files import BoundsOfFiles, LakeFile, Prepared, Replaced
    from lockstep.core.lake.iceberg import Iceberg
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.staging import AttemptId
    from lockstep.steps.context import Context
    from lockstep.targets.lake.spool import Spooled

    Moves = Mapping[int, tuple[Iceberg, Prepared, int]]
    Files = dict[int, list[LakeFile]]

LAKE_TRIES = 20
LAKE_LOCK_SECONDS = 60
LAKE_PAUSE_SECONDS = 0.2  # at most, before the second try. It grows by as much with every try


def commit_to_lake(at: Context, folder: PipelineFolder, attempt: AttemptId, move: Callable[[Moves], None]) -> None:
    """Writes the files, and repeats preparation and `move` while other writers are in the way. Keeps the staged rows.

    `move` runs the transaction. It raises `LakeMoved` if a pointer is not where it was.
    """
    tables = open_fitting(at.conn, folder.pipeline, attempt)
    files = _written(at, folder, attempt, tables)
    if files is None:
        return  # an earlier try has committed
    why = ""
    for number in range(LAKE_TRIES):
        tables = open_fitting(at.conn, folder.pipeline, attempt, tables)
        with TemporaryDirectory(prefix="lockstep-") as spool:
            prepared = _prepare(at, folder, attempt, files, tables, Path(spool))
            try:
                move(prepared)
            except LakeMoved as moved:
                why = moved.message
            else:
                return
        _sweep(at, prepared)
        time.sleep(random.uniform(0, LAKE_PAUSE_SECONDS * (number + 1)))  # noqa: S311 - it keeps writers apart
    raise Refusal(
        f"{folder.pipeline.name}: batch {attempt.batch_id} was prepared {LAKE_TRIES} times, and nothing of it was written: "
        f"{why}",
        next_command=f"lockstep run {folder.pipeline.name}",
    )


def _written(at: Context, folder: PipelineFolder, attempt: AttemptId, tables: Mapping[int, LakeTable]) -> Files | None:
    """Writes the attempt's rows into the store, and reads each file back. None if the attempt has committed.

    Files of tasks, and of an earlier try of this attempt, are looked at again, and used.
    """
    from lockstep.adapters.iceberg.data_file import look_back, require_as_told  # noqa: PLC0415 - few pipelines have a lake table
    from lockstep.adapters.iceberg.folder import put_file  # noqa: PLC0415 - as above

    with TemporaryDirectory(prefix="lockstep-") as spool:
        taken = _take(at, folder, attempt, tables, Path(spool))
        if taken is None:
            return None
        reach("lake.prefix_made")
        found: Files = {}
        for place, (spooled, recorded) in taken.items():
            if recorded:
                require_as_told(recorded, attempt.batch_id)
                found[place] = recorded
            else:
                stem = f"{prefix_of(tables[place].location, attempt.batch_id, attempt.token)}/{place}"
                paths = [f"{stem}-{number}-{uuid4()}.parquet" for number in range(len(spooled.files))]
                for local, path in zip(spooled.files, paths, strict=True):
                    put_file(local, path)
                    reach("lake.file_closed")
                found[place] = [look_back(path, attempt.batch_id) for path in paths]
            if sums_of_files(found[place]) != spooled.expected:
                raise BadData(
                    f"{folder.pipeline.name}: batch {attempt.batch_id}: the files of {tables[place].name} do not hold the "
                    "rows that are staged for it",
                    next_command=f"lockstep batch {attempt.batch_id}",
                )
    reach("lake.looked_back")
    with transaction(at.conn, COMMITTER, lock_seconds=LAKE_LOCK_SECONDS) as cur:
        attempts.require_newest(cur, attempt)
        moves.insert_files(cur, attempt, {place: found[place] for place, (_, known) in taken.items() if not known})
    reach("lake.registered")
    return found


def _take(
    at: Context, folder: PipelineFolder, attempt: AttemptId, tables: Mapping[int, LakeTable], spool: Path
) -> dict[int, tuple[Spooled, list[LakeFile]]] | None:
    """Copies the staged rows into local files under the batch's lock, only if they could be committed now."""
    from lockstep.targets.lake.spool import Spooled, spool_rows  # noqa: PLC0415 - few pipelines have a lake table

    with transaction(at.conn, COMMITTER, lock_seconds=LAKE_LOCK_SECONDS) as cur:
        batch = attempts.lock_batch(cur, attempt.batch_id)
        if batch.state == BatchState.COMMITTED and ledger.committed_by(cur, attempt.batch_id) == attempt:
            return None
        attempts.require_newest(cur, attempt)
        require_same_definition(cur, attempt, folder)
        require_promoted(cur, attempt, folder)
        ledger.require_validated(cur, attempt)
        if batch.lane == Lane.LIVE:
            ledger.require_positions(cur, attempt)
        recorded, keyed = moves.files_of_attempt(cur, attempt), keyed_places(folder.pipeline.targets)
        of_tasks = {place for place, files in recorded.items() if any(file.of_task for file in files)}
        # Where tasks have written all of them, nothing is taken out of staging: the commit compares it.
        staged = None if of_tasks == tables.keys() else require_staged(cur, attempt)
        taken = {}
        for place, table in tables.items():
            files = recorded.get(place, [])
            moves.insert_prefix(cur, attempt, place, prefix_of(table.location, attempt.batch_id, attempt.token))
            if place in keyed:
                continue  # what becomes of these rows is up to those that are there when the move is prepared
            if staged is None:
                taken[place] = (Spooled((), sums_of_files(files)), files)
                continue
            names = [name for name, _ in staged.columns[place]]
            taken[place] = (spool_rows(cur, attempt, place, names, table.arrow_schema, spool), files)
    return taken


def _prepare(
    at: Context, folder: PipelineFolder, attempt: AttemptId, files: Files, tables: Mapping[int, LakeTable], spool: Path
) -> Moves:
    """Prepares the move of each table on its present state."""
    from lockstep.adapters.iceberg.folder import settle  # noqa: PLC0415 - few pipelines have a lake table

    names = lake_places(folder.pipeline.targets)
    made: dict[int, tuple[Iceberg, Prepared, int]] = {}
    ids = {place: str(uuid4()) for place in tables}
    with transaction(at.conn, COMMITTER, lock_seconds=LAKE_LOCK_SECONDS) as cur:
        attempts.require_newest(cur, attempt)
        replaced, batches = moves.replaced(cur, attempt.batch_id)
        lane, ranges = moves.lane_and_ranges(cur, attempt.batch_id)
        for place, table in tables.items():
            moves.insert_prepared(cur, attempt, place, ids[place], table.address)
    reach("lake.prepared_row")
    summary = _summary(folder, attempt, lane, ranges, batches)
    for place, table in tables.items():
        prefix = prefix_of(table.location, attempt.batch_id, attempt.token)
        if place in keyed_places(folder.pipeline.targets):
            of_keys = keyed_move(folder.pipeline, attempt, place, table, ids[place], spool)
            prepared: Prepared = prepare_keys(at, of_keys, lane, replaced, summary)
        else:
            require_own_columns(folder.pipeline, table, files[place])
            paths, told = [file.path for file in files[place]], _bounds_of_shared(at, table, replaced)
            prepared = table.prepare(ids[place], paths, replaced, prefix, summary, told)
        settle(prepared.files)
        made[place] = (names[place], prepared, sum(file.rows for file in files.get(place, ())))
        reach("lake.one_metadata_written")
    reach("lake.all_metadata_written")
    return made


def _bounds_of_shared(at: Context, table: LakeTable, replaced: Sequence[Replaced]) -> BoundsOfFiles:
    """Returns what the ledger knows of files whose own bounds do not tell that all of their rows are replaced."""
    shared = [path for path, _, whole in table.touched(replaced) if not whole] if replaced else []
    if not shared:
        return {}
    with transaction(at.conn, READER) as cur:
        return moves.known_bounds(cur, shared)


def _summary(
    folder: PipelineFolder, attempt: AttemptId, lane: str, ranges: Mapping[str, Sequence[int]], batches: Sequence[int]
) -> dict[str, str]:
    """Returns what the snapshot says of its batch. The ledger keeps the same, and longer."""
    said = json.dumps(ranges, separators=(",", ":"))
    if len(said) > MAX_RANGES_SIZE:
        said = json.dumps({"partitions": len(ranges), "sha256": sha256(said.encode()).hexdigest()})
    facts = {
        "pipeline": folder.pipeline.name,
        "batch": str(attempt.batch_id),
        "token": str(attempt.token),
        "lane": lane,
        "ranges": said,
        "code": folder.content_hash(),
    }
    if batches:
        facts["replaces"] = ",".join(map(str, batches))
    return {f"lockstep.{name}": value for name, value in facts.items()}


def _sweep(at: Context, prepared: Moves) -> None:
    """Deletes the files of preparations that were refused: no pointer has shown them, and none ever will."""
    from lockstep.adapters.iceberg.folder import sweep_files  # noqa: PLC0415 - few pipelines have a lake table

    for _, made, _ in prepared.values():
        sweep_files(made.files)
        with transaction(at.conn, COMMITTER) as cur:
            moves.swept_prepared(cur, made.commit_uuid)
