"""Computes the difference that a batch would make, row by row, within one transaction."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.core.pipeline.definition import Append, History, Windows
from lockstep.core.pipeline.targets import Upsert, WithTotals, row_key
from lockstep.core.records import SOURCE_ORDER
from lockstep.ledger.exact_rows import exact_rows, with_texts
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import each_name, table_name
from lockstep.ledger.rows import every, one
from lockstep.targets.rows import found_by_index, staged_rows
from lockstep.targets.source_truncation import is_truncation
from lockstep.targets.table.fit import types_of_target
from lockstep.targets.totals import written_pieces
from lockstep.targets.windows import windowed_pieces

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import EventTime, Target
    from lockstep.core.staging import AttemptId

Q = queries("lockstep.targets.proof", "difference")


def keep_before(
    cur: cursor, target: Target, attempt: AttemptId, place: int = 0, event_time: EventTime | None = None
) -> None:
    """Keeps, until the transaction ends, every row that publishing the attempt may change."""
    parts = _parts(cur, target, attempt, place, event_time)
    with found_by_index(cur):
        cur.execute(sql.SQL(Q["keep_before"]).format(**parts), asdict(attempt))


def difference(
    cur: cursor, target: Target, attempt: AttemptId, samples: int, place: int = 0, event_time: EventTime | None = None
) -> dict[str, Any]:
    """Returns the changes to those rows: `added`, `changed`, `removed`, `unchanged`, and the first few that differ."""
    parts = _parts(cur, target, attempt, place, event_time)
    parts["rows_after"] = with_texts(cur, parts["target"], sql.SQL("({})").format(sql.SQL(Q["after"]).format(**parts)))
    with found_by_index(cur):
        return compare_rows(cur, parts, asdict(attempt), samples)


def compare_rows(cur: cursor, parts: dict[str, Any], values: dict[str, Any], samples: int) -> dict[str, Any]:
    """Counts how the `rows_after` differ from the table `before`, and returns the first few that do, exactly."""
    parts = parts | {"rows_before": with_texts(cur, parts["before"])}
    cur.execute(sql.SQL(Q["count_differences"]).format(**parts), values)
    counts: dict[str, Any] = one(cur)._asdict()
    row_of = exact_rows(cur, parts["before"])
    cur.execute(sql.SQL(Q["sample_differences"]).format(**parts), values | {"most": samples})
    found = [row._asdict() for row in every(cur)]
    return counts | {"samples": [each | {name: row_of(each[name]) for name in ("before", "after")} for each in found]}


def late_rows(cur: cursor, attempt: AttemptId) -> int:
    """Returns how many rows of the batch's offsets are late for a window."""
    cur.execute(Q["count_late"], asdict(attempt))
    return int(one(cur).late)


def rejects_before_and_after(cur: cursor, attempt: AttemptId) -> dict[str, int]:
    """Returns how many rejects the offsets have `before`, and would have `after`."""
    cur.execute(Q["count_rejects"], asdict(attempt))
    row = one(cur)
    return {"before": row.before, "after": int(row.after or 0)}


def places_of(target: Target, place: int) -> dict[str, Any]:
    """Returns the names of the target and of its rows before, and the condition that pairs two of its rows."""
    return {
        "target": table_name(target.table),
        "before": sql.Identifier(f"before_{place}"),
        "same_key": each_name("b.{0} = a.{0}", row_key(target), " and "),
    }


def _parts(cur: cursor, target: Target, attempt: AttemptId, place: int, event_time: EventTime | None) -> dict[str, Any]:
    key = row_key(target)
    parts = places_of(target, place)
    parts["rows_of_offsets"] = sql.SQL(Q["rows_of_offsets"]).format(**parts)
    before, after = [], []
    named = target.key if isinstance(target, History) else key
    if isinstance(target, History) or not isinstance(target, Append):
        rows = staged_rows(attempt, 0, place)
        types = types_of_target(cur, target.table)
        parts["rows"] = rows.source
        if isinstance(target, Windows) and event_time is not None:
            parts["rows"] = windowed_pieces(target, event_time, rows, is_replay=False)["windowed"]
        parts["keys"] = each_name("t.{}", named)
        parts["staged_keys"] = sql.SQL(", ").join(
            sql.SQL("t.{}::{}").format(sql.Identifier(name), sql.SQL(types[name])) for name in named
        )
        staged = sql.SQL(Q["of_staged_keys"]).format(**parts)
        before, after = [staged], [staged]
    parts["before_keys"] = each_name("b.{}", named)
    if isinstance(target, Upsert) and target.order_by == SOURCE_ORDER:  # a truncation of the source has no key
        names = {"target_keys": each_name("o.{}", key), "is_truncation": is_truncation(key)}
        before.append(sql.SQL(Q["of_older_keys"]).format(**parts, **names))
        after.append(sql.SQL(Q["of_kept_keys"]).format(**parts))
    if isinstance(target, History):  # versions beside those of the offsets may end at other moments
        before.append(sql.SQL(Q["of_offsets_keys"]).format(**parts))
        after.append(sql.SQL(Q["of_kept_keys"]).format(**parts))
    if isinstance(target, WithTotals):
        parts["kept_keys"] = written_pieces(cur, target)["kept_keys"]
        before.append(sql.SQL(Q["of_replaced_keys"]).format(**parts, table=sql.Literal(target.table)))
        after.append(sql.SQL(Q["of_kept_keys"]).format(**parts))
    for name, wanted in (("and_of_keys_before", before), ("and_of_keys_after", after)):
        keys = sql.SQL(" union ").join(wanted)
        parts[name] = sql.SQL(Q["and_of_keys"] if wanted else "").format(**parts, wanted_keys=keys)
    return parts
