"""Copies rows of some offsets out of lake tables into the session: for previews and for lineage."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import COMMITTER, transaction
from lockstep.core.lake.files import Replaced
from lockstep.core.lake.iceberg import LakeCopy
from lockstep.core.lake.keyed import keyed_places
from lockstep.ledger.admin.upkeep import streams_with_logs
from lockstep.ledger.batch import attempts
from lockstep.ledger.lake import moves

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from psycopg2.extensions import connection, cursor

    from lockstep.adapters.iceberg.table import LakeTable
    from lockstep.core.pipeline.definition import Pipeline, Target
    from lockstep.core.staging import AttemptId


def bring_offsets(
    conn: connection, pipeline: Pipeline, opened: Mapping[int, LakeTable], attempt: AttemptId, spool: Path
) -> dict[int, Path]:
    """Brings the rows of a batch's offsets into local files below `spool`. Of upserted tables, also those of its keys.

    Reads the lake in no transaction (T6).
    """
    if not opened:
        return {}
    from lockstep.adapters.iceberg.data_file import RowGroups  # noqa: PLC0415 - few pipelines have a lake table
    from lockstep.adapters.iceberg.keyed import KeyedTable  # noqa: PLC0415 - as above
    from lockstep.targets.lake.keyed import staged_keys  # noqa: PLC0415 - as above

    upserted = {place: each for place, each in keyed_places(pipeline.targets).items() if place in opened}
    with transaction(conn, COMMITTER) as cur:
        attempts.require_newest(cur, attempt)
        offsets = moves.offsets_to_compare(cur, attempt.batch_id)
        keys = {
            place: staged_keys(cur, attempt, place, target, opened[place].arrow_schema)
            for place, target in upserted.items()
        }
    files = {place: spool / f"{place}.parquet" for place in opened}
    for place, table in opened.items():
        names = table.arrow_schema.names
        rows = KeyedTable(table).rows_of(keys[place], offsets) if place in keys else table.read(names, offsets)
        with closing(RowGroups(files[place], table.arrow_schema)) as file:
            for some in rows:
                file.write(some.cast(table.arrow_schema))
    return files


def copy_offsets(
    cur: cursor, pipeline: Pipeline, opened: Mapping[int, LakeTable], files: Mapping[int, Path]
) -> Pipeline:
    """Copies the rows of these files. Returns the pipeline with the copies as its targets."""
    if not files:
        return pipeline
    from lockstep.targets.lake.copy import make_copy  # noqa: PLC0415 - few pipelines have a lake table
    from lockstep.targets.lake.keyed import make_keyed_copy, on_copy, rows_of_file  # noqa: PLC0415 - as above

    targets, upserted = list(pipeline.targets), keyed_places(pipeline.targets)
    for place, path in files.items():
        columns, rows = opened[place].postgres_columns, rows_of_file(path)
        if place in upserted:
            targets[place] = copied = on_copy(upserted[place])
            make_keyed_copy(cur, copied, columns, rows)
        else:
            copy = LakeCopy(opened[place].name.partition(".")[2])
            make_copy(cur, copy, columns, rows)
            targets[place] = replace(targets[place], table=copy)
    return _with_targets(pipeline, targets)


def copy_offset(cur: cursor, pipeline: Pipeline, opened: Mapping[int, LakeTable], offset: int) -> Pipeline:
    """Copies the rows of one offset, in every stream, out of each opened table. Returns the pipeline with the copies.

    Reads the lake in between, in a transaction that locks nothing.
    """
    if not opened:
        return pipeline
    from lockstep.targets.lake.copy import make_copy  # noqa: PLC0415 - few pipelines have a lake table

    targets = list(pipeline.targets)
    places = [Replaced(each.stream_id, offset, offset + 1) for each in streams_with_logs(cur, pipeline.name)]
    for place, table in opened.items():
        copy = LakeCopy(table.name.partition(".")[2])
        make_copy(cur, copy, table.postgres_columns, table.read(table.arrow_schema.names, places))
        targets[place] = replace(targets[place], table=copy)
    return _with_targets(pipeline, targets)


def _with_targets(pipeline: Pipeline, targets: Sequence[Target]) -> Pipeline:
    return replace(pipeline, target=tuple(targets) if len(targets) > 1 else targets[0])
