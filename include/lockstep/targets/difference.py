"""Computes the difference that a batch would make, row by row, within one transaction."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.core.definition import Accumulate, Append
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import every, one
from lockstep.targets.fit import columns_of
from lockstep.targets.rows import staged_rows
from lockstep.targets.totals import written

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.definition import Target
    from lockstep.core.staging import AttemptId

Q = queries("lockstep.targets", "difference")
COORDINATES = ("_stream", "_offset", "_ordinal")


def keep_before(cur: cursor, target: Target, attempt: AttemptId, place: int = 0) -> None:
    """Keeps, until the transaction ends, every row that publishing the attempt may change."""
    cur.execute(sql.SQL(Q["keep_before"]).format(**_parts(cur, target, attempt, place)), asdict(attempt))


def difference(cur: cursor, target: Target, attempt: AttemptId, samples: int, place: int = 0) -> dict[str, Any]:
    """Returns the changes to those rows: `added`, `changed`, `removed`, `unchanged`, and the first few that differ."""
    parts = _parts(cur, target, attempt, place)
    parts["after"] = sql.SQL(Q["rows_after"]).format(**parts)
    cur.execute(sql.SQL(Q["count_differences"]).format(**parts), asdict(attempt))
    counts: dict[str, Any] = one(cur)._asdict()
    cur.execute(sql.SQL(Q["sample_differences"]).format(**parts), asdict(attempt) | {"most": samples})
    return counts | {"samples": [row._asdict() for row in every(cur)]}


def rejects(cur: cursor, attempt: AttemptId) -> dict[str, int]:
    """Returns how many rejects the offsets have `before`, and would have `after`."""
    cur.execute(Q["count_rejects"], asdict(attempt))
    row = one(cur)
    return {"before": row.before, "after": int(row.after or 0)}


def _parts(cur: cursor, target: Target, attempt: AttemptId, place: int) -> dict[str, Any]:
    key = COORDINATES if isinstance(target, Append) else target.key
    parts: dict[str, Any] = {
        "target": table_name(target.table),
        "before": sql.Identifier(f"before_{place}"),
        "same_key": sql.SQL(" and ").join(sql.SQL("b.{0} = a.{0}").format(sql.Identifier(name)) for name in key),
        "or_of_staged_keys": sql.SQL(""),
        "or_of_replaced_keys": sql.SQL(""),
        "or_of_kept_keys": sql.SQL(""),
    }
    if not isinstance(target, Append):
        rows = staged_rows(attempt, 0, place)
        types = columns_of(cur, target.table)
        parts["rows"] = rows.source
        parts["keys"] = sql.SQL(", ").join(sql.SQL("t.{}").format(sql.Identifier(name)) for name in key)
        parts["staged_keys"] = sql.SQL(", ").join(
            sql.SQL("t.{}::{}").format(sql.Identifier(name), sql.SQL(types[name])) for name in key
        )
        parts["or_of_staged_keys"] = sql.SQL(Q["of_staged_keys"]).format(**parts)
    if isinstance(target, Accumulate):
        parts["kept_keys"] = written(cur, target)["kept_keys"]
        parts["before_keys"] = sql.SQL(", ").join(sql.SQL("b.{}").format(sql.Identifier(name)) for name in key)
        parts["or_of_replaced_keys"] = sql.SQL(Q["of_replaced_keys"]).format(**parts, table=sql.Literal(target.table))
        parts["or_of_kept_keys"] = sql.SQL(Q["of_kept_keys"]).format(**parts)
    return parts
