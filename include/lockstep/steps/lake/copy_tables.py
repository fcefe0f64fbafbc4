"""Copies tables of the lake into the session of `verify`. Compares their pointers with the ledger."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lockstep.core.lake.files import OffsetSums, add_sums
from lockstep.core.lake.iceberg import Iceberg, LakeCopy, lake_places
from lockstep.core.lake.keyed import HeldRows, keyed_places
from lockstep.core.proof.verification import PromiseCheck, Share, Wrong
from lockstep.ledger.lake import moves
from lockstep.ledger.lake.of_tasks import expected_digests
from lockstep.steps.lake.open_tables import foreign_state, load_table
from lockstep.steps.lake.verify_keys import add_batch, as_accounted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from psycopg2.extensions import cursor

    from lockstep.adapters.iceberg.table import LakeTable
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.proof.verification import Proves

AS_READ_BACK = "the lake holds what was read back before the commit"
AS_WRITTEN = "the lake holds the values that tasks wrote"
POINTER_TOLD = "every move of the pointer is told"
FILES_WHOLE = "every file is there and whole"
COMMIT_IN_HISTORY = "the last commit is in the table's history"


def copy_tables(cur: cursor, pipeline: Pipeline) -> tuple[Pipeline, list[PromiseCheck]]:
    """Copies each lake table, as its pointer of this snapshot shows it.

    Returns the pipeline with the copies as its targets, and the checks that only the lake needs. A pipeline without a
    lake table comes back as it is.
    """
    places = lake_places(pipeline.targets)
    if not places:
        return pipeline, []
    from lockstep.adapters.iceberg.history import damaged_files  # noqa: PLC0415 - few pipelines have a lake table
    from lockstep.targets.lake.copy import (  # noqa: PLC0415 - as above
        ValuesOfBatches,
        make_copy,
        sums_of_copy,
    )

    checks: list[PromiseCheck] = []
    targets, keyed = list(pipeline.targets), keyed_places(pipeline.targets)
    for place, table in places.items():
        address = moves.pointer(cur, pipeline.name, table)
        opened = load_table(pipeline.name, table, address)
        copy = LakeCopy(table.partition(".")[2])
        told = expected_digests(cur, pipeline.name, place)
        values = ValuesOfBatches({batch: columns for (batch, _), (columns, _) in told.items()})
        damaged = damaged_files(opened)
        rows = opened.read([name for name, _ in opened.postgres_columns], without=damaged)
        targets[place] = replace(targets[place], table=copy)
        if place in keyed:
            held: HeldRows = {}
            make_copy(cur, copy, opened.postgres_columns, rows, tell=partial(add_batch, held, opened))
            of_rows = [as_accounted(cur, table, opened.uuid, held)]
        else:
            make_copy(cur, copy, opened.postgres_columns, rows, tell=values.take)
            of_rows = [
                _as_read_back(cur, pipeline, table, opened.uuid, sums_of_copy(cur, copy)),
                *_as_written(cur, table, told, values.digests, opened.ids),
            ]
        found = [_told(cur, table, address), _in_history(cur, table, opened), _whole(cur, table, damaged), *of_rows]
        more = f": {table}" if len(targets) > 1 else ""
        checks += [replace(check, name=f"{check.name}{more}") for check in found]
    return replace(pipeline, target=tuple(targets) if len(targets) > 1 else targets[0]), checks


def _told(cur: cursor, table: Iceberg, address: str) -> PromiseCheck:
    ok = moves.shown_by(cur, table) == address
    return PromiseCheck(POINTER_TOLD, ok, "" if ok else f"{table} shows {address}, and no move to it was told")


def _in_history(cur: cursor, table: Iceberg, opened: LakeTable) -> PromiseCheck:
    """Checks that nobody has taken the table back, or put another in its place."""
    last, wrong = moves.last_commit(cur, table), Wrong()
    if why := foreign_state(last, opened):
        wrong.add(f"{table} {why}: moved {moves.other_movers(cur, table)}")
    return wrong.check(COMMIT_IN_HISTORY)


def _whole(cur: cursor, table: Iceberg, damaged: Mapping[str, str]) -> PromiseCheck:
    """Checks that the store has each data file as the table has it. Names batch and other writers."""
    wrong, batches = Wrong(), moves.batches_of_files(cur, damaged)
    who = moves.other_movers(cur, table)
    for path, why in sorted(damaged.items()):
        of = f" of batch {batches[path]}" if path in batches else ""
        wrong.add(f"{table}: {path}{of}: {why}; the pointer was moved {who}")
    return wrong.check(FILES_WHOLE)


def _as_written(
    cur: cursor,
    table: Iceberg,
    told: Mapping[tuple[int, int], tuple[tuple[str, ...], int]],
    there: Mapping[tuple[int, int], int],
    columns: Collection[str],
) -> list[PromiseCheck]:
    """Compares the values of each segment with the digest of what its task wrote. No check for rows that were staged.

    Leaves out segments with a column that the table has no more, as in the database.
    """
    if not told:
        return []
    wrong = Wrong()
    gone = Counter(name for held, _ in told.values() for name in held if name not in columns)
    compared = 0
    for (batch_id, stream_id), (held, digest) in sorted(told.items()):
        if not set(held) <= set(columns):
            continue
        compared += 1
        if there.get((batch_id, stream_id)) != digest:
            who = moves.other_movers(cur, table)
            wrong.add_of(batch_id, f"the rows of stream {stream_id} are not those that it committed; moved {who}")
    left_out = "; ".join(f"{count} segments had another column {name} of {table}" for name, count in gone.items())
    proves: Proves = "contents" if compared else "nothing"
    share, said = Share(compared, len(told), "segments"), f"{compared} segments by digest"
    return [wrong.check(AS_WRITTEN, proves, str(table), told=said, left_out=left_out, share=share)]


def _as_read_back(
    cur: cursor, pipeline: Pipeline, table: Iceberg, uuid: str, there: dict[tuple[int, int], OffsetSums]
) -> PromiseCheck:
    """Compares the rows of each segment with its files of the commit, by number and by sums of offsets."""
    wrong = Wrong()
    expected: dict[tuple[int, int], OffsetSums] = {}
    where: dict[tuple[int, int], str] = {}
    for row in moves.expected(cur, pipeline.name, table, uuid):
        key = (row.batch_id, row.stream_id)
        where[key] = f"{row.topic}-{row.partition} [{row.from_offset}, {row.until_offset}) of batch {row.batch_id}"
        if row.sums:
            n, total, squares, first, last = row.sums
            expected[key] = add_sums(expected.get(key), (n, total, squares, first, last))
    who = moves.other_movers(cur, table)
    for key in sorted(where.keys() | there.keys()):
        found, told = there.get(key), expected.get(key)
        if found != told:
            name = where.get(key, f"stream {key[1]} of batch {key[0]}, which owns none of its offsets")
            rows = f"{found[0] if found else 0} rows are there, {told[0] if told else 0} were committed"
            same = (
                "other offsets than were committed, in as many rows" if found and told and found[0] == told[0] else rows
            )
            wrong.add(f"{name}: {same}; moved {who}", batch=key[0] if key in where else None)
    told_of_all = f"{len(there)} segments by number and sums of offsets"
    return wrong.check(AS_READ_BACK, "coordinates", str(table), told=told_of_all)
