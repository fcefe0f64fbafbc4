"""Prepares the move of an upserted lake table, and publishes into its copy in the commit's transaction.

The rows that the table has of the batch's keys are copied into the session. Publishing there decides, as in a table of the
database. The files then get what the copy holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from lockstep.adapters.postgres import COMMITTER, transaction
from lockstep.core.errors import BadData, LakeMoved
from lockstep.core.lake.files import prefix_of
from lockstep.core.lake.keyed import HeldRows, PreparedKeys, add_held, keyed_places
from lockstep.core.states import Lane
from lockstep.faults import reach
from lockstep.ledger.batch import attempts
from lockstep.ledger.lake import moves
from lockstep.ledger.lake.keyed import keep_held
from lockstep.steps.attempt.target_refusal import refused_by_target
from lockstep.targets import publish_staged, withdraw
from lockstep.targets.rows import staged_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from psycopg2.extensions import cursor

    from lockstep.adapters.iceberg.keyed import KeyedTable
    from lockstep.adapters.iceberg.keyed_values import Keys
    from lockstep.adapters.iceberg.table import LakeTable
    from lockstep.core.lake.files import Replaced
    from lockstep.core.lake.iceberg import Iceberg
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.targets import Upsert
    from lockstep.core.staging import AttemptId
    from lockstep.steps.context import Context

    Moves = Mapping[int, tuple[Iceberg, Any, int]]

KEYED_LOCK_SECONDS = 60


@dataclass(frozen=True, slots=True)
class KeyedMove:
    """One upserted lake table, and the attempt that changes it. `spool` is a local folder."""

    pipeline: Pipeline
    attempt: AttemptId
    place: int
    table: KeyedTable
    commit_uuid: str
    spool: Path

    @property
    def target(self) -> Upsert:
        """Returns the target of this place."""
        return keyed_places(self.pipeline.targets)[self.place]

    @property
    def stem(self) -> str:
        """Returns the beginning of all files that the preparation writes. `reap` knows them by it."""
        prefix = prefix_of(self.table.location, self.attempt.batch_id, self.attempt.token)
        return f"{prefix}/kept-{self.commit_uuid}"


def keyed_move(
    pipeline: Pipeline, attempt: AttemptId, place: int, table: LakeTable, commit_uuid: str, spool: Path
) -> KeyedMove:
    """Returns the move of the upserted table at this place."""
    from lockstep.adapters.iceberg.keyed import KeyedTable  # noqa: PLC0415 - few pipelines have a lake table

    return KeyedMove(pipeline, attempt, place, KeyedTable(table), commit_uuid, spool)


def prepare_keys(
    at: Context, move: KeyedMove, lane: str, replaced: Sequence[Replaced], summary: Mapping[str, str]
) -> PreparedKeys:
    """Writes the files and the metadata of the next state. Moves nothing.

    Its memory is that of the batch's keys, and of some rows at a time.
    """
    from lockstep.adapters.iceberg.folder import make_prefix, put_file  # noqa: PLC0415 - few pipelines have a lake table

    with transaction(at.conn, COMMITTER, lock_seconds=KEYED_LOCK_SECONDS) as cur:
        keys = _keys(cur, move)
    make_prefix(move.stem.rpartition("/")[0])
    there, stay = _Spool(move, "touched"), _Spool(move, "stay")
    with there:
        parted = move.table.part(keys, replaced, move.stem, there.take)
    reach("lake.rest_written")
    with stay:
        state, withdrawn = _rehearse(at, move, lane, keys, there, stay)
    reach("lake.rehearsed")
    files = []
    if stay.rows:
        path = f"{move.stem}-keys.parquet"
        put_file(stay.path, path)
        reach("lake.keys_written")
        file, held = move.table.look_back(path)
        if held != stay.held:
            raise BadData(
                f"{move.pipeline.name}: batch {move.attempt.batch_id}: {path} does not hold the rows that were written",
                next_command=f"lockstep batch {move.attempt.batch_id}",
            )
        files.append(file)
    paths = [each.path for each in files]
    after, snapshot_id, sequence, written = move.table.prepare_keys(move.commit_uuid, parted, paths, summary)
    changes: HeldRows = {}
    add_held(changes, stay.held)
    add_held(changes, there.held, -1)
    counts = (len(files), len(parted.drops), len(parted.kept), withdrawn)
    before = (move.commit_uuid, move.table.uuid, move.table.address)
    all_written = (*parted.kept, *paths, *written)
    return PreparedKeys(
        *before,
        after,
        snapshot_id,
        *counts,
        sequence,
        all_written,
        touched=there.path,
        columns=move.table.postgres_columns,
        state=state,
        changes=changes,
        kept=tuple(files),
    )


def with_copies(cur: cursor, pipeline: Pipeline, prepared: Moves) -> Pipeline:
    """Copies what was there of the keys of each prepared table. Returns the pipeline with the copies as its targets."""
    keyed = {place: made for place, (_, made, _) in prepared.items() if isinstance(made, PreparedKeys)}
    if not keyed:
        return pipeline
    from lockstep.targets.lake.keyed import make_keyed_copy, on_copy, rows_of_file  # noqa: PLC0415 - few have one

    targets = list(pipeline.targets)
    for place, made in keyed.items():
        targets[place] = copied = on_copy(keyed_places(pipeline.targets)[place])
        make_keyed_copy(cur, copied, made.columns, rows_of_file(made.touched))
    return replace(pipeline, target=tuple(targets) if len(targets) > 1 else targets[0])


def move_tables(cur: cursor, pipeline: Pipeline, attempt: AttemptId, prepared: Moves) -> dict[str, dict[str, int]]:
    """Moves the pointers. Returns what was done, by table.

    Raises `LakeMoved` if publishing has made other rows of a copy than those that were prepared.
    """
    keyed = {place: made for place, (_, made, _) in prepared.items() if isinstance(made, PreparedKeys)}
    for place, made in keyed.items():
        from lockstep.targets.lake.keyed import state_of_copy  # noqa: PLC0415 - few pipelines have a lake table

        if state_of_copy(cur, pipeline.targets[place].table) != made.state:
            raise LakeMoved(f"{pipeline.targets[place].table}: a deletion was kept or forgotten since it was prepared")
    effects = moves.move_pointers(cur, attempt, prepared)
    for place, made in keyed.items():
        moves.insert_files(cur, attempt, {place: made.kept})
        keep_held(cur, str(pipeline.targets[place].table), attempt.batch_id, made.changes)
        reach("lake.account_kept")
    return effects


def _keys(cur: cursor, move: KeyedMove) -> Keys:
    from lockstep.targets.lake.keyed import staged_keys  # noqa: PLC0415 - few pipelines have a lake table

    attempts.require_newest(cur, move.attempt)
    return staged_keys(cur, move.attempt, move.place, move.target, move.table.arrow_schema)


def _rehearse(at: Context, move: KeyedMove, lane: str, keys: Keys, there: _Spool, stay: _Spool) -> tuple[str, int]:
    """Publishes into a copy, and rolls it back. Returns what it came to, and the number of rows that were withdrawn."""
    from lockstep.targets.lake.keyed import (  # noqa: PLC0415 - few pipelines have a lake table
        make_keyed_copy,
        on_copy,
        rows_of_copy,
        rows_of_file,
        state_of_copy,
    )

    target, attempt, withdrawn = on_copy(move.target), move.attempt, 0
    with transaction(at.conn, COMMITTER, lock_seconds=KEYED_LOCK_SECONDS) as cur:
        attempts.require_newest(cur, attempt)
        make_keyed_copy(cur, target, move.table.postgres_columns, rows_of_file(there.path))
        with refused_by_target(move.pipeline, attempt, target.table):
            if lane == Lane.REPLAY:
                withdrawn = withdraw(cur, target, attempt.batch_id)["withdrawn"]
            publish_staged(cur, target, staged_rows(attempt, keys.rows, move.place))
        state = state_of_copy(cur, target.table)
        for rows in rows_of_copy(cur, attempt, target, move.table.arrow_schema):
            stay.take(rows)
        at.conn.rollback()
    return state, withdrawn


class _Spool:
    """A local file of rows, and the account of them."""

    def __init__(self, move: KeyedMove, name: str) -> None:
        self.path = move.spool / f"{move.commit_uuid}-{name}.parquet"
        self.held: HeldRows = {}
        self.rows = 0
        self._table = move.table

    def __enter__(self) -> Self:
        from lockstep.adapters.iceberg.data_file import RowGroups  # noqa: PLC0415 - few pipelines have a lake table

        self._writer = RowGroups(self.path, self._table.arrow_schema)
        return self

    def take(self, rows: Any) -> None:
        """Adds rows, and counts them."""
        from lockstep.adapters.iceberg.keyed_values import held_rows  # noqa: PLC0415 - as above

        if rows.num_rows:
            self._writer.write(rows.cast(self._table.arrow_schema))
            self.rows += rows.num_rows
            add_held(self.held, held_rows(rows, self._table.ids))

    def __exit__(self, *_: object) -> None:
        self._writer.close()
