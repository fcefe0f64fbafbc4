"""Checks that no row lies before the last truncation of its source, by the ledger and by the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.core.records import SOURCE_ORDER
from lockstep.ledger.proof.verify import first_wrong
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import each_name, table_name
from lockstep.ledger.rows import one

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.targets import Upsert
    from lockstep.core.proof.verification import PromiseCheck, Wrong

Q = queries("lockstep.targets.proof", "truncated")
NO_ROW_IS_OLDER = "no row is from before a truncation of its source"


def truncation_checks(cur: cursor, pipeline: str, target: Upsert) -> list[PromiseCheck]:
    """Compares each row's place in the source's log with the last truncation that the ledger remembers, if there is one."""
    values = {"pipeline": pipeline, "target": target.table}
    if target.order_by != SOURCE_ORDER:
        return []
    cur.execute(Q["was_truncated"], values)
    if not one(cur).yes:
        return []
    statement = sql.SQL(Q["older_rows"]).format(target=table_name(target.table))
    wrong = first_wrong(cur, statement, values)
    return [wrong.check(NO_ROW_IS_OLDER, "coordinates", target.table)]


def mark_truncated(cur: cursor, pipeline: str, target: Upsert, starts: Mapping[int, int], wrong: Wrong) -> bool:
    """Marks the newest records from before the last truncation of the log as deleted: they have no row.

    Takes a truncation from the ledger if the log no longer holds it. Adds a truncation that only one of them has. Returns
    True if there was one.
    """
    if target.order_by != SOURCE_ORDER:
        return False
    values = {
        "pipeline": pipeline,
        "target": target.table,
        "streams": list(starts),
        "log_starts": list(starts.values()),
    }
    no_key = each_name("n.{} is null", target.key, " and ")
    cur.execute(sql.SQL(Q["floors"]).format(no_key=no_key), values)
    floors = one(cur)
    if floors.of_log != floors.of_ledger:
        wrong.add("the last truncation of the source is another one in the log than in the ledger")
    cur.execute(sql.SQL(Q["drop_truncations"]).format(no_key=no_key))
    if floors.of_log is None:
        return False
    cur.execute(Q["mark_older"], {"floor": floors.of_log})
    return True
