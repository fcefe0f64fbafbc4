"""Checks an accumulated target against its contributions, and those against the segments that batches own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.ledger.proof.verify import first_wrong
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every
from lockstep.targets.totals import written_pieces

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.targets import Accumulate
    from lockstep.core.proof.verification import PromiseCheck, Proves

Q = queries("lockstep.targets.proof", "accumulated")
TOTALS_CHECKS: dict[str, tuple[str, Proves]] = {
    "every contribution is of a segment its batch owns": ("contributions_of_strangers", "coordinates"),
    "every row counts for its key": ("contributions_not_counted", "coordinates"),
    "each key has one row": ("keys_doubled", "coordinates"),
    "totals are what the contributions add up to": ("totals_not_added_up", "contents"),
}


@dataclass(frozen=True, slots=True)
class Contribution:
    """The contribution of one segment to one key: the number of records, the newest offset, and each exact total."""

    records: int
    offset: int
    totals: Mapping[str, Any]


def checks(cur: cursor, pipeline: str, target: Accumulate) -> list[PromiseCheck]:
    """Checks the target against its contributions, and those against the ledger.

    Each check names its first errors.
    """
    parts = written_pieces(cur, target)
    found = []
    for name, (query, proves) in TOTALS_CHECKS.items():
        wrong = first_wrong(cur, sql.SQL(Q[query]).format(**parts), {"pipeline": pipeline, "target": target.table})
        found.append(wrong.check(name, proves, target.table))
    return found


def contributions(
    cur: cursor, target: Accumulate, batch_id: int, stream_id: int
) -> dict[tuple[str, ...], Contribution]:
    """Returns the contribution of a segment, by key as text."""
    cur.execute(Q["of_segment"], {"batch_id": batch_id, "stream_id": stream_id, "target": target.table})
    return {
        tuple(row.key): Contribution(row.records, row.offset, json.loads(row.totals, parse_float=Decimal))
        for row in every(cur)
    }
