"""The questions that verify asks of the ledger and the target; an empty answer is a kept promise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.core.definition import Append, Upsert
from lockstep.core.guarantees import Delivered
from lockstep.core.verification import Check, Segment
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import every, maybe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg2.extensions import connection, cursor

    from lockstep.core.definition import Pipeline, Target

Q = queries("lockstep.ledger", "verify")
LEDGER = {
    "coverage is contiguous": "coverage_not_contiguous",
    "nothing is covered past the position": "coverage_past_position",
    "batches cover what they committed": "coverage_not_committed",
    "only unfinished batches claim offsets": "claims_of_closed_batches",
    "only the newest attempt committed": "commits_not_by_newest",
    "commits are whole": "commits_not_whole",
    "counts reconcile": "counts_not_reconciled",
    "rejects are all there": "rejects_not_counted",
}
APPEND = {"rows are all there": "rows_not_counted", "every row is its batch's": "rows_not_covered"}
UPSERT = {"every row is its batch's": "rows_not_covered"}
ROWS_AT_ONCE = 10_000


def ledger_checks(cur: cursor, pipeline: Pipeline) -> list[Check]:
    """The ledger against itself, each target of records against the ledger; each check names its first offence."""
    checks = [_check(cur, pipeline, name, query) for name, query in LEDGER.items()]
    if isinstance(pipeline.guarantee, Delivered):
        return checks  # results move apart from the offsets: who verifies asks the store that they live in
    for one in pipeline.each():
        of_target = {Append: APPEND, Upsert: UPSERT}.get(type(one.first), {})
        checks += [_check(cur, one, name_of(pipeline, one.first, name), query) for name, query in of_target.items()]
    return checks


def name_of(pipeline: Pipeline, target: Target, name: str) -> str:
    """A check's name, with the table where there are several."""
    return f"{name}: {target.table}" if len(pipeline.targets) > 1 else name


def streams(cur: cursor, pipeline: str) -> list[Any]:
    """Every stream the pipeline ever had."""
    cur.execute(Q["verified_streams"], {"pipeline": pipeline})
    return every(cur)


def segments(cur: cursor, stream_id: int, target: Target | None = None) -> list[Segment]:
    """What batches own of a stream, in order; the digest is of distances from the segment's beginning.

    For one target of several, `filtered` are the records that have no row there, nor a reject.
    """
    cur.execute(Q["segments"], {"stream_id": stream_id, "target": target.table if target else None})
    return [
        Segment(
            row.batch_id,
            row.from_offset,
            row.until_offset,
            row.delivered,
            row.filtered,
            int(row.digest_sum),
            int(row.digest_squares),
        )
        for row in every(cur)
    ]


def accounted_offsets(conn: connection, pipeline: Pipeline, stream_id: int) -> Iterator[int]:
    """Offsets with a row or a reject, in order, through a server-side cursor: memory stays flat."""
    with conn.cursor(name="accounted") as cur:
        cur.itersize = ROWS_AT_ONCE
        cur.execute(
            sql.SQL(Q["accounted_offsets"]).format(target=table_name(pipeline.first.table)), {"stream_id": stream_id}
        )
        for row in cur:
            yield row[0]


def accounted_between(cur: cursor, pipeline: Pipeline, stream_id: int, from_offset: int, until_offset: int) -> set[int]:
    """Offsets of a stretch that have a row or a reject."""
    stretch = {"stream_id": stream_id, "from_offset": from_offset, "until_offset": until_offset}
    cur.execute(sql.SQL(Q["accounted_between"]).format(target=table_name(pipeline.first.table)), stretch)
    return {row.offset for row in every(cur)}


def rejected_offsets(cur: cursor, stream_id: int) -> set[int]:
    """The rejects of a stream."""
    cur.execute(Q["rejected_offsets"], {"stream_id": stream_id})
    return {row.offset for row in every(cur)}


def keyed_rows(cur: cursor, pipeline: Pipeline, target: Upsert) -> dict[tuple[str, ...], tuple[int, int]]:
    """Key as text → (stream, offset) of the record that is its row."""
    keys = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in target.key)
    cur.execute(sql.SQL(Q["keyed_rows"]).format(keys=keys, target=table_name(pipeline.first.table)))
    return {tuple(row[0]): (row[1], row[2]) for row in every(cur)}


def _check(cur: cursor, pipeline: Pipeline, name: str, query: str) -> Check:
    values = {"pipeline": pipeline.name, "target": pipeline.first.table}
    cur.execute(sql.SQL(Q[query]).format(target=table_name(pipeline.first.table)), values)
    row = maybe(cur)
    return Check(name, ok=row is None, detail=f"{row.topic}-{row.partition}: {row.what}" if row else "")
