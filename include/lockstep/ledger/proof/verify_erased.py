"""Checks erasures: each matches its decision, and no erased key has come back."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.core.pipeline.targets import Append, row_key
from lockstep.core.proof.verification import PromiseCheck, Wrong
from lockstep.ledger.changes.erasures import key_expression
from lockstep.ledger.proof.verify import first_wrong
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import every
from lockstep.ledger.staging import digests
from lockstep.ledger.staging.suppression import erased_columns, facts_of

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Pipeline

Q = queries("lockstep.ledger.proof", "verify_erased")
ERASED_STAYS_OUT = "what was erased stays out"


def erased_checks(cur: cursor, pipeline: Pipeline) -> list[PromiseCheck]:
    """Returns the check of a pipeline's erasures. Returns no check if nothing was ever erased."""
    cur.execute(Q["erasures"], {"pipeline": pipeline.name})
    erasures = every(cur)
    if not erasures:
        return []
    wrong = Wrong()
    for row in erasures:
        if row.decision_id is None or row.found != row.said or not row.same_key:
            said = f"decision {row.decision_id}" if row.decision_id else "no decision"
            wrong.add(f"erasure {row.erasure_id}: what it took out is not what {said} says")
    columns = erased_columns(cur, pipeline.name)
    for target in pipeline.targets:
        known = {name for name, _ in digests.digest_columns(cur, target.table)}
        for column in columns:
            if column.column_name not in known:
                wrong.add(f"{target.table} has no column {column.column_name}, whose keys were erased")
                continue
            key = key_expression(column.column_name, as_uuid=column.as_uuid)
            statement = sql.SQL(Q["undone"]).format(target=table_name(target.table), key=key)
            facts = facts_of(column) | {"owner": pipeline.name, "target": target.table}
            statements: list[sql.Composable] = [statement]
            if not isinstance(target, Append) and column.column_name in row_key(target):
                facts["place"] = row_key(target).index(column.column_name)
                statements.append(sql.SQL(Q["still_added"]))
            for each in statements:
                wrong.join(first_wrong(cur, each, facts))
    decisions = ", ".join(str(row.decision_id) for row in erasures)
    cur.execute(Q["taken_out"], {"pipeline": pipeline.name})
    taken = ", ".join(f"{row.rows} of {row.relation}" for row in every(cur)) or "nothing was there"
    keys = "1 key" if len(erasures) == 1 else f"{len(erasures)} keys"
    told = f"{keys} by decision {decisions}: {taken}"
    return [wrong.check(ERASED_STAYS_OUT, told=told)]


def erased_offsets(cur: cursor, table: str, stream_id: int) -> dict[int, set[int]]:
    """Returns the offsets of a stream whose rows were erased from a target, by batch."""
    cur.execute(Q["erased_offsets"], {"target": table, "stream_id": stream_id})
    found: dict[int, set[int]] = defaultdict(set)
    for row in every(cur):
        found[row.batch_id].add(row.offset)
    return found
