"""The check of contents: rows of appended targets, and rejects, are by their digests those that batches committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.core.definition import Append
from lockstep.core.guarantees import Delivered
from lockstep.core.verification import Check
from lockstep.ledger import digests
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.definition import Pipeline, Target

Q = queries("lockstep.ledger", "verify_contents")
NAME = "contents are those that were committed"


def contents_check(cur: cursor, pipeline: Pipeline) -> Check:
    """Compares the digests of every batch and stream; names the first one that differs, and what has no digest."""
    changed, left_out = [], []
    for target in pipeline.targets:
        if isinstance(target, Append) and not isinstance(pipeline.guarantee, Delivered):
            its_changed, its_left_out = _of_target(cur, pipeline, target)
            changed += its_changed
            left_out += its_left_out
    cur.execute(sql.SQL(Q["rejects_changed"]).format(reject=digests.kept_reject()), {"pipeline": pipeline.name})
    changed += [_named(row, "rejects in the ledger") for row in every(cur)]
    cur.execute(Q["segments"], {"pipeline": pipeline.name})
    known = one(cur)
    if known.before:
        left_out.append(f"{known.before} batches were committed before digests were kept")
    if changed:
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        return Check(NAME, ok=False, detail=changed[0] + more)
    return Check(NAME, ok=True, detail="; ".join([f"{known.digested} segments by digest", *_not_provable(left_out)]))


def _of_target(cur: cursor, pipeline: Pipeline, target: Target) -> tuple[list[str], list[str]]:
    """The segments that differ, and reasons for which others cannot be compared."""
    now = digests.columns_of(cur, target.table)
    types = dict(now)
    changed, left_out = [], []
    cur.execute(Q["shapes"], {"target": target.table})
    for shape in every(cur):
        facts = {"pipeline": pipeline.name, "shape_id": shape.shape_id, "place": shape.place}
        held = tuple((name, type_) for name, type_ in shape.columns)
        other = [name for name, type_ in held if name not in types or not digests.hash_alike(type_, types[name])]
        if other:
            cur.execute(Q["segments_of_shape"], facts)
            if segments := one(cur).segments:
                left_out.append(f"{segments} segments had another column {other[0]} of {target.table}")
            continue
        columns = tuple((name, types[name]) for name, _ in held)
        statement = sql.SQL(Q["rows_changed"]).format(
            target=table_name(target.table), row=digests.row_digest(columns, shape.place, staged=False)
        )
        cur.execute(statement, facts)
        changed += [_named(row, f"rows in {target.table}") for row in every(cur)]
    return changed, left_out


def _named(row: Any, what: str) -> str:
    return f"{row.topic}-{row.partition}: batch {row.batch_id}: the {row.rows} {what} are not those that it committed"


def _not_provable(left_out: list[str]) -> list[str]:
    return [f"not provable: {reason}" for reason in left_out]
