"""Keeps a SHA-256 over the rows of each segment of appended targets, by decisions, and compares the rows with it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.core.lake.iceberg import Iceberg
from lockstep.core.pipeline.columns import FLOAT
from lockstep.core.pipeline.definition import Append, History
from lockstep.core.pipeline.guarantees import Delivered
from lockstep.core.proof.certificate import Link
from lockstep.core.proof.verification import ROWS_BY_SHA, PromiseCheck, Wrong
from lockstep.ledger.changes import decisions
from lockstep.ledger.proof.verify import check_name
from lockstep.ledger.proof.verify_contents import contents_checks, shapes_of
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import every
from lockstep.ledger.staging import digests

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from psycopg2.extensions import cursor
    from psycopg2.sql import Composable

    from lockstep.core.changes.person import Person
    from lockstep.core.pipeline.definition import Pipeline, Target

Q = queries("lockstep.ledger.proof", "row_hashes")
HASH_ROWS = "hash-rows"
SEGMENTS_PER_DECISION = 500
_SIZE = re.compile(r"\(.*\)")


@dataclass(frozen=True, slots=True)
class RowHashes:
    """The hashes of some segments of a target that no decision keeps yet, and the columns that they cover."""

    target: str
    columns: tuple[str, ...]
    segments: tuple[dict[str, Any], ...]


def contents_and_hash_checks(cur: cursor, pipeline: Pipeline) -> list[PromiseCheck]:
    """Compares the rows of all batches with the digests of their commits, and with the hashes that decisions keep."""
    return [*contents_checks(cur, pipeline), *row_hash_checks(cur, pipeline)]


def row_hash_checks(cur: cursor, pipeline: Pipeline, batches: Iterable[int] | None = None) -> list[PromiseCheck]:
    """Compares rows with the hashes that decisions keep of them: a check for each target that has any.

    A check proves contents if each segment has a hash.
    """
    return [check for target in _hashed_targets(pipeline) if (check := _compared(cur, pipeline, target, batches))]


def missing_hashes(cur: cursor, pipeline: Pipeline) -> list[RowHashes]:
    """Returns the hashes of all segments of which no decision keeps one."""
    found = []
    for target in _hashed_targets(pipeline):
        kept, _ = _kept(cur, pipeline.name, target.table)
        for columns, rows, _ in _found(cur, pipeline, target, None):
            missing = tuple(
                {"batch": r.batch_id, "stream": r.stream_id, "erasure": r.erasure, "rows": r.rows, "sha256": r.sha256}
                for r in rows
                if _key(r) not in kept
            )
            if missing:
                found.append(RowHashes(target.table, columns, missing))
    return found


def keep_hashes(cur: cursor, pipeline: str, found: Iterable[RowHashes], person: Person) -> int:
    """Records decisions that keep these hashes, and returns the number of segments."""
    count = 0
    for hashes in found:
        for begin in range(0, len(hashes.segments), SEGMENTS_PER_DECISION):
            segments = hashes.segments[begin : begin + SEGMENTS_PER_DECISION]
            detail = {"target": hashes.target, "columns": list(hashes.columns), "segments": list(segments)}
            decisions.record(cur, pipeline, HASH_ROWS, person, detail)
        count += len(hashes.segments)
    return count


def hash_links(cur: cursor, pipeline: str, batches: Iterable[int]) -> list[Link]:
    """Returns the links of the decisions that keep hashes of these batches, in the order of the chain."""
    cur.execute(Q["links"], {"pipeline": pipeline, "batches": list(batches)})
    return [Link(row.number, row.previous, row.record, row.digest) for row in every(cur)]


def _hashed_targets(pipeline: Pipeline) -> Iterator[Target]:
    """Yields the targets whose rows stay as they were committed, in the ledger's own database."""
    if not isinstance(pipeline.guarantee, Delivered) and pipeline.store is None:
        yield from (t for t in pipeline.targets if isinstance(t, Append) and not isinstance(t.table, Iceberg))


def _compared(cur: cursor, pipeline: Pipeline, target: Target, batches: Iterable[int] | None) -> PromiseCheck | None:
    kept, wrong = _kept(cur, pipeline.name, target.table)
    if not kept:
        return None
    compared = missing = others = 0
    for _, rows, left_out in _found(cur, pipeline, target, batches):
        others += left_out
        for row in rows:
            if (its := kept.get(_key(row))) is None:
                missing += 1
                continue
            compared += 1
            decision, sha256 = its
            if row.sha256 != sha256:
                wrong.add(
                    f"{row.topic}-{row.partition}: batch {row.batch_id}: the {row.rows} rows in {target.table} are not "
                    f"those that decision {decision} has hashed",
                    batch=row.batch_id,
                )
    is_whole = bool(compared) and not missing and not others
    return wrong.check(
        check_name(pipeline, target, ROWS_BY_SHA),
        "contents" if wrong.count or is_whole else "nothing",
        target.table,
        told=f"{compared} segments by SHA-256" + (f", {missing} have none yet" if missing else ""),
        left_out=f"{others} lists of columns had another column of {target.table}" if others else "",
    )


def _kept(cur: cursor, pipeline: str, table: str) -> tuple[dict[tuple[int, int, int], tuple[int, str]], Wrong]:
    """Returns the first hash that decisions keep of each segment. A later one that differs is wrong."""
    cur.execute(Q["kept"], {"pipeline": pipeline, "target": table})
    kept: dict[tuple[int, int, int], tuple[int, str]] = {}
    wrong = Wrong()
    for row in every(cur):
        decision, sha256 = kept.setdefault(_key(row), (row.decision_id, row.sha256))
        if sha256 != row.sha256:
            wrong.add_of(row.batch_id, f"decisions {decision} and {row.decision_id} keep different hashes of its rows")
    return kept, wrong


def _found(
    cur: cursor, pipeline: Pipeline, target: Target, batches: Iterable[int] | None
) -> Iterator[tuple[tuple[str, ...], list[Any], int]]:
    """Yields each list of columns with the hashes of its segments today. A column that is gone leaves 1 list out.

    With `batches`, rows are found by their offsets.
    """
    types = dict(digests.digest_columns(cur, target.table))
    cur.execute(Q["settings"])
    for shape in shapes_of(cur, target.table):
        names = tuple(name for name, _ in shape.columns)
        if any(name not in types or not digests.hash_alike(type_, types[name]) for name, type_ in shape.columns):
            yield names, [], 1
            continue
        facts = {"pipeline": pipeline.name, "target": target.table, "shape_id": shape.shape_id, "place": shape.place}
        row = _row(((name, types[name]) for name in names), marks_deletions=isinstance(target, History))
        query = Q["hashed"] if batches is None else Q["hashed_of_batches"]
        facts["batches"] = None if batches is None else list(batches)
        cur.execute(sql.SQL(query).format(target=table_name(target.table), row=row), facts)
        yield names, every(cur), 0


def _row(columns: Iterable[tuple[str, str]], *, marks_deletions: bool) -> Composable:
    """Returns the SQL of a row whose text is the same for each value, in every type that holds it."""
    deleted = sql.SQL("coalesce(t._deleted, false)" if marks_deletions else "false")
    values = sql.SQL("").join(_value(name, _SIZE.sub("", type_)) for name, type_ in columns)
    return sql.SQL("row(t._offset, t._ordinal, {0}{1})").format(deleted, values)


def _value(name: str, kind: str) -> Composable:
    template = ", t.{0}"
    if kind == "numeric":
        template = ", trim_scale(t.{0})"
    elif kind in FLOAT:
        template = ", t.{0}::float8"
    return sql.SQL(template).format(sql.Identifier(name))


def _key(row: Any) -> tuple[int, int, int]:
    return row.batch_id, row.stream_id, row.erasure
