"""Queries ledger and target for `verify`. An empty answer means that the promise is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.core.isolation import FATAL_REASONS
from lockstep.core.lake.iceberg import LakeCopy
from lockstep.core.pipeline.definition import Append, Upsert
from lockstep.core.pipeline.guarantees import Delivered
from lockstep.core.proof.verification import MOST_NAMED_ERRORS, ROWS_COUNTED, PromiseCheck, Segment, Wrong
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import in_database, table_name
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from psycopg2.extensions import connection, cursor

    from lockstep.core.pipeline.definition import Pipeline, Target
    from lockstep.core.proof.verification import BatchesSince, Proves

Q = queries("lockstep.ledger.proof", "verify")
LEDGER_CHECKS = {
    "coverage is contiguous": "coverage_not_contiguous",
    "nothing is covered past the position": "coverage_past_position",
    "batches cover what they committed": "coverage_not_committed",
    "only unfinished batches claim offsets": "claims_of_closed_batches",
    "only the newest attempt committed": "commits_not_by_newest",
    "commits are whole": "commits_not_whole",
    "counts reconcile": "counts_not_reconciled",
    "rejects are all there": "rejects_not_counted",
}
ROWS_OWNED = "every row is its batch's"
UNCOUNTED = "missing rows of keys: they are counted over all batches alone"
ROWS_PER_FETCH = 10_000


def ledger_checks(cur: cursor, pipeline: Pipeline) -> list[PromiseCheck]:
    """Checks the ledger against itself, and each target of records against the ledger.

    Each check names its first errors.
    """
    checks = consistency_checks(cur, pipeline)
    if isinstance(pipeline.guarantee, Delivered):
        return checks  # results move apart from the offsets, so `verify` asks their store
    for each in pipeline.each():
        found = []
        match each.first:
            case Append():
                found = [_check(cur, each, ROWS_COUNTED, "rows_not_counted", "coordinates"), _owned(cur, each)]
            case Upsert(LakeCopy()):  # what is missing there is told by the account of its commits
                found = [_owned(cur, each)]
            case Upsert():
                counted = _counted(cur, each)
                owned = _owned(cur, each)
                if owned.ok and counted.proves == "nothing":  # existing rows say nothing about missing ones
                    owned = replace(owned, proves="nothing")
                found = [counted, owned]
        checks += [replace(check, name=check_name(pipeline, each.first, check.name)) for check in found]
    return checks


def checks_since(cur: cursor, pipeline: Pipeline, since: BatchesSince) -> list[PromiseCheck]:
    """Checks each target of records against these batches alone, by the offsets that they own."""
    checks = []
    for each in pipeline.each():
        found = []
        match each.first:
            case Append():
                found = [
                    _check(cur, each, ROWS_COUNTED, "rows_not_counted_since", "coordinates", list(since.batches)),
                    _check(cur, each, ROWS_OWNED, "rows_not_owned_since", "coordinates", list(since.batches)),
                ]
            case Upsert():  # existing rows say nothing about missing ones
                owned = _check(cur, each, ROWS_OWNED, "rows_not_owned_since", "coordinates", list(since.batches))
                found = [replace(owned, proves="nothing", left_out=UNCOUNTED) if owned.ok else owned]
        checks += [replace(check, name=check_name(pipeline, each.first, check.name)) for check in found]
    return checks


def consistency_checks(cur: cursor, pipeline: Pipeline) -> list[PromiseCheck]:
    """Checks the ledger against itself."""
    return [_check(cur, pipeline, name, query) for name, query in LEDGER_CHECKS.items()]


def _owned(cur: cursor, pipeline: Pipeline) -> PromiseCheck:
    check = _check(cur, pipeline, ROWS_OWNED, "rows_not_covered", "coordinates")
    cur.execute(
        sql.SQL(Q["rows_of_others"]).format(target=table_name(pipeline.first.table)), {"pipeline": pipeline.name}
    )
    others = ", ".join(f"{row.rows} rows of pipeline {row.pipeline}" for row in every(cur))
    return replace(check, left_out=others)


def _counted(cur: cursor, pipeline: Pipeline) -> PromiseCheck:
    """Compares the rows of an upserted table with the recorded effects of its commits, if all are recorded."""
    name, table = ROWS_COUNTED, pipeline.first.table
    row = keys_counted(cur, table)
    if row.unknown:
        why = f"missing rows: {row.unknown} commits have not recorded how many rows they left"
        return PromiseCheck(name, ok=True, detail=f"not looked at: {why}", target=table, left_out=why)
    recorded = f"{row.expected} rows by the effects of {row.commits} commits"
    detail = recorded if row.expected == row.found else f"{recorded}, {row.found} are in the target"
    return PromiseCheck(name, row.expected == row.found, detail, "coordinates", table)


def keys_counted(cur: cursor, table: str) -> Any:
    """Counts the rows of an upserted table: `found` ones, and those `expected` by effects and decisions.

    `unknown` is how many of its `commits` have not recorded how many rows they left.
    """
    cur.execute(sql.SQL(Q["keys_counted"]).format(target=table_name(table)), {"target": table})
    return one(cur)


def rows_of_target(cur: cursor, table: str, since: BatchesSince | None) -> int:
    """Returns how many rows a table has, or the batches `since` have there."""
    batches = list(since.batches) if since else None
    cur.execute(sql.SQL(Q["rows_of_target"]).format(target=table_name(table)), {"batches": batches})
    return int(one(cur).rows)


def check_name(pipeline: Pipeline, target: Target, name: str) -> str:
    """Returns a check's name, with the table if there are several."""
    return f"{name}: {target.table}" if len(pipeline.targets) > 1 else name


def streams_ever(cur: cursor, pipeline: str) -> list[Any]:
    """Returns every stream of the pipeline, closed ones too."""
    cur.execute(Q["verified_streams"], {"pipeline": pipeline})
    return every(cur)


def committed_segments(cur: cursor, stream_id: int, target: Target | None = None) -> list[Segment]:
    """Returns the segments of batches of a stream, in order. Digests are of distances from the segment's beginning.

    For one target of several, `filtered` counts records that have neither a row there nor a reject.
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
            row.definition_hash,
            row.quarantined,
        )
        for row in every(cur)
    ]


def batches_at(cur: cursor, places: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Returns the batches that own these places, each a stream and an offset."""
    streams, offsets = [stream for stream, _ in places], [offset for _, offset in places]
    cur.execute(Q["batches_at"], {"streams": streams, "offsets": offsets})
    return tuple(row.batch_id for row in every(cur))


def committed_definitions(cur: cursor, pipeline: str) -> dict[str, dict[str, Any]]:
    """Returns, by hash, the definition of every attempt of the pipeline that has committed."""
    cur.execute(Q["committed_definitions"], {"pipeline": pipeline})
    return {row.definition_hash: row.document for row in every(cur)}


def accounted_offsets(conn: connection, pipeline: Pipeline, stream_id: int, begin: int) -> Iterator[tuple[int, int]]:
    """Yields offset and ordinal of every row from an offset on, -1 for a reject, in order.

    A server-side cursor keeps memory flat.
    """
    with conn.cursor(name="accounted") as cur:
        cur.itersize = ROWS_PER_FETCH
        cur.execute(
            sql.SQL(Q["accounted_offsets"]).format(target=table_name(pipeline.first.table)),
            {"stream_id": stream_id, "begin": begin},
        )
        yield from cur


def accounted_between(cur: cursor, pipeline: Pipeline, stream_id: int, from_offset: int, until_offset: int) -> set[int]:
    """Returns the offsets of a stretch that have a row or a reject."""
    stretch = {"stream_id": stream_id, "from_offset": from_offset, "until_offset": until_offset}
    cur.execute(sql.SQL(Q["accounted_between"]).format(target=table_name(pipeline.first.table)), stretch)
    return {row.offset for row in every(cur)}


def rejected_offsets(cur: cursor, stream_id: int) -> set[int]:
    """Returns the offsets of a stream's rejects."""
    cur.execute(Q["rejected_offsets"], {"stream_id": stream_id})
    return {row.offset for row in every(cur)}


def rejected_between(cur: cursor, stream_id: int, from_offset: int, until_offset: int) -> set[int]:
    """Returns the offsets of a stretch's rejects."""
    stretch = {"stream_id": stream_id, "from_offset": from_offset, "until_offset": until_offset}
    cur.execute(Q["rejected_between"], stretch)
    return {row.offset for row in every(cur)}


def fatal_between(cur: cursor, stream_id: int, from_offset: int, until_offset: int) -> set[int]:
    """Returns the rejects of a stretch that ended their reader or kept it busy, and that are not decoded again."""
    stretch = {"stream_id": stream_id, "from_offset": from_offset, "until_offset": until_offset}
    cur.execute(Q["fatal_between"], stretch | {"fatal": FATAL_REASONS})
    return {row.offset for row in every(cur)}


def first_wrong(cur: cursor, statement: sql.Composable, values: Mapping[str, Any]) -> Wrong:
    """Counts all rows that a query finds, and names the first ones."""
    wrong = Wrong()
    cur.execute(sql.SQL(Q["first_wrong"]).format(query=statement), {**values, "first": MOST_NAMED_ERRORS})
    found = every(cur)
    named = [f"{row.topic}-{row.partition}: {row.what}" if row.topic else row.what for row in found]
    wrong.extend(named, found[0].wrong if found else 0, [getattr(row, "batch_id", None) for row in found])
    return wrong


def _check(
    cur: cursor,
    pipeline: Pipeline,
    name: str,
    query: str,
    proves: Proves = "nothing",
    batches: Sequence[int] | None = None,
) -> PromiseCheck:
    table = pipeline.first.table
    statement = sql.SQL(Q[query]).format(target=table_name(table))
    values = {"pipeline": pipeline.name, "target": table, "table": in_database(table), "batches": batches}
    wrong = first_wrong(cur, statement, values)
    target = table if proves != "nothing" else ""
    return wrong.check(name, proves, target)
