"""Computes the digests of the rows that a commit has put into appended targets. `verify` compares with them later."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.core.lake.iceberg import Iceberg
from lockstep.core.pipeline.definition import Append, History
from lockstep.core.pipeline.guarantees import Delivered
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import every, one
from lockstep.ledger.staging import digests
from lockstep.ledger.staging.contents import Published, StagedContents

if TYPE_CHECKING:
    from collections.abc import Collection

    from psycopg2.extensions import cursor

    from lockstep.core.offsets import OffsetRange
    from lockstep.core.pipeline.definition import Pipeline, Target
    from lockstep.core.staging import AttemptId

Q = queries("lockstep.targets.proof", "published")


def published_digests(
    cur: cursor, pipeline: Pipeline, attempt: AttemptId, found: StagedContents
) -> dict[int, Published]:
    """Returns, by place, the digests of the attempt's rows in each appended target of the ledger's database.

    Rows that keep their digest on their way are not read again: it is the one found in staging.
    """
    if isinstance(pipeline.guarantee, Delivered):
        return {}
    if found.published is not None:  # the tasks have looked at the rows that they copied
        return dict(found.published)
    each = {}
    for place, target in enumerate(pipeline.targets):
        if not isinstance(target, Append) or place not in found.columns:
            continue
        staged = found.columns[place]  # an attached table has lost its staging columns by now
        by_stream = {stream: its.rows for (at, stream), its in found.by_place.items() if at == place}
        if isinstance(target.table, Iceberg):  # its files were written from staging, and `verify` reads them
            if all(digests.is_hashable(type_) for _, type_ in staged):
                each[place] = Published(target.table, staged, by_stream)
            continue
        types = dict(digests.digest_columns(cur, target.table))
        if digests.are_alike(staged, tuple(types.items())) and not _may_rewrite(cur, target):
            columns = tuple((name, types[name]) for name, _ in staged)
            each[place] = Published(target.table, columns, by_stream)
        else:
            each[place] = of_ranges(cur, target, attempt, tuple(name for name, _ in staged), place=place)
    return each


def of_ranges(
    cur: cursor,
    target: Target,
    attempt: AttemptId,
    names: Collection[str],
    *,
    place: int = 0,
    stream_id: int | None = None,
    within: OffsetRange | None = None,
) -> Published:
    """Returns the digests of the batch's rows in the target, looked up by their offsets.

    With a `stream_id` it looks up only that stream, and of it only offsets that are `within` a range.
    """
    columns = _columns_of(cur, target, names)
    statement = sql.SQL(Q["digest_of_ranges"]).format(
        target=table_name(target.table),
        row=digests.row_digest(columns, place, marks_deletions=isinstance(target, History)),
    )
    bounds = {"from_offset": within and within.from_offset, "until_offset": within and within.until_offset}
    cur.execute(statement, asdict(attempt) | bounds | {"stream_id": stream_id})
    found = every(cur)
    by_stream = {row.stream_id: int(row.digest) for row in found}
    return Published(target.table, columns, by_stream, {row.stream_id: row.rows for row in found})


def of_part(
    cur: cursor, target: Target, names: Collection[str], stream_id: int, part: sql.Composable | None
) -> Published:
    """Returns the digest of the rows in a task's part of the target. Without a part it is that of no rows."""
    columns = _columns_of(cur, target, names)
    if part is None:
        return Published(target.table, columns, {stream_id: 0}, {stream_id: 0})
    row = digests.row_digest(columns, 0, marks_deletions=False)
    cur.execute(sql.SQL(Q["digest_of_part"]).format(part=part, row=row))
    found = one(cur)
    return Published(target.table, columns, {stream_id: int(found.digest)}, {stream_id: found.rows})


def _columns_of(cur: cursor, target: Target, names: Collection[str]) -> digests.DigestColumns:
    """Returns the columns that a digest covers. The mark of unavailable values is staged, and no column of a target."""
    types = dict(digests.digest_columns(cur, target.table))
    return tuple((name, types[name]) for name in names if name in types and digests.is_hashable(types[name]))


def _may_rewrite(cur: cursor, target: Target) -> bool:
    """Returns True if a trigger or a rule of the table may change the rows that are inserted."""
    cur.execute(Q["may_rewrite"], {"table": target.table})
    return bool(one(cur).does)
