"""Checks that a history's versions follow each other, and begin at the moments of their records."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.core.pipeline.definition import History
from lockstep.core.records import LAST_STAMP
from lockstep.formats.second_reading import EPOCH
from lockstep.ledger.proof.verify import first_wrong
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import each_name, table_name
from lockstep.ledger.rows import every

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Target
    from lockstep.core.proof.verification import PromiseCheck, Wrong
    from lockstep.formats.second_reading import RereadRecord

Q = queries("lockstep.targets.proof", "versioned")
VERSIONS_FOLLOW = "every version ends where the next one begins"
VERSIONS_BEGIN = "every version begins at its record's moment"


def versions_checks(cur: cursor, pipeline: str, target: History) -> list[PromiseCheck]:
    """Computes the end of every version again, from all versions of its key, and looks at where each begins."""
    parts = {
        "target": table_name(target.table),
        "keys": each_name("t.{}", target.key),
        "order": sql.SQL("t.valid_from desc," if target.order_by else ""),
    }
    checks = {VERSIONS_FOLLOW: sql.SQL(Q["versions_not_in_order"]).format(**parts)}
    if target.order_by is not None:
        moment = sql.SQL("t.{}").format(sql.Identifier(target.order_by))
        checks[VERSIONS_BEGIN] = sql.SQL(Q["moments_not_kept"]).format(**parts, moment=moment)
    found = []
    for name, statement in checks.items():
        wrong = first_wrong(cur, statement, {"pipeline": pipeline})
        found.append(wrong.check(name, "contents", target.table))
    return found


def other_moments(
    cur: cursor, target: Target, stream: Any, batch_id: int, chunk: Sequence[RereadRecord], wrong: Wrong
) -> None:
    """Adds each version of a chunk of records that does not begin at its record's time. With `order_by` it adds none."""
    if not isinstance(target, History) or target.order_by is not None or not chunk:
        return
    stamps = {record.offset: record.stamp for record in chunk if record.stamp >= 0}
    values = {"batch_id": batch_id, "stream_id": stream.stream_id, "first": chunk[0].offset, "last": chunk[-1].offset}
    cur.execute(sql.SQL(Q["moments_of_offsets"]).format(target=table_name(target.table)), values)
    for row in every(cur):
        stamp = stamps.get(row.offset)
        if stamp is not None and row.moment != EPOCH + timedelta(milliseconds=min(stamp, LAST_STAMP)):
            where = f"{stream.topic}-{stream.partition} offset {row.offset}"
            wrong.add(f"{where}: valid from {row.moment.isoformat()}, and its record is of {stamp} ms since 1970")
