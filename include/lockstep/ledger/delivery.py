"""What the ledger knows of results that move apart from the offsets: what is to be brought, and what has been confirmed."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from psycopg2.extras import Json

from lockstep.core.staging import RESERVED_COLUMNS, STAGING_SCHEMA
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg2.extensions import cursor

    from lockstep.core.staging import AttemptId

Q = queries("lockstep.ledger", "delivery")


def ranges(cur: cursor, batch_id: int) -> tuple[tuple[int, int, int], ...]:
    """(stream, from, until) of everything the batch brings results for."""
    cur.execute(Q["ranges_to_deliver"], {"batch_id": batch_id})
    return tuple((row.stream_id, row.from_offset, row.until_offset) for row in every(cur))


def epochs(cur: cursor, pipeline: str) -> dict[int, int]:
    """The epoch of every stream the pipeline ever had."""
    cur.execute(Q["epochs"], {"pipeline": pipeline})
    return {row.stream_id: row.epoch for row in every(cur)}


def staged_types(cur: cursor, attempt: AttemptId) -> tuple[tuple[str, str], ...]:
    """(name, Postgres type) of the decoded columns, as they are staged."""
    reserved = [name for name, _ in RESERVED_COLUMNS]
    cur.execute(Q["staged_types"], {"table": f"{STAGING_SCHEMA}.{attempt.table}", "reserved": reserved})
    return tuple((row.name, row.type) for row in every(cur))


def confirm(cur: cursor, attempt: AttemptId, effect: Mapping[str, int]) -> None:
    """Writes down that the store has the batch's results; the order that the guarantee asks for is a constraint."""
    facts = asdict(attempt) | {"effect": Json(dict(effect))}
    cur.execute(Q["insert_delivery"], facts)


def undelivered(cur: cursor, pipeline: str, batch_id: int | None = None) -> list[Any]:
    """Offsets that were committed first and whose results nobody has confirmed since: of one batch, or of all."""
    cur.execute(Q["undelivered"], {"pipeline": pipeline, "batch_id": batch_id})
    return every(cur)


def recorded_segments(cur: cursor, pipeline: str) -> list[Any]:
    """Every segment that a batch owns, with its counts, its digest, and that of its rejects."""
    cur.execute(Q["recorded_segments"], {"pipeline": pipeline})
    return every(cur)
