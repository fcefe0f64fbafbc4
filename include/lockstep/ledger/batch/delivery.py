"""Records deliveries to a store apart from the offsets: ranges still to deliver, and confirmed deliveries."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from psycopg2.extras import Json

from lockstep.core.errors import Superseded
from lockstep.core.records import RESERVED_COLUMNS
from lockstep.core.staging import STAGING_SCHEMA
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg2.extensions import cursor

    from lockstep.core.staging import AttemptId

Q = queries("lockstep.ledger.batch", "delivery")


def delivered_ranges(cur: cursor, batch_id: int) -> tuple[tuple[int, int, int], ...]:
    """Returns (stream, from, until) of each range that the batch delivers results for."""
    cur.execute(Q["ranges_to_deliver"], {"batch_id": batch_id})
    return tuple((row.stream_id, row.from_offset, row.until_offset) for row in every(cur))


def epochs(cur: cursor, pipeline: str) -> dict[int, int]:
    """Returns the epoch of every stream of the pipeline, closed ones too."""
    cur.execute(Q["epochs"], {"pipeline": pipeline})
    return {row.stream_id: row.epoch for row in every(cur)}


def former_names(cur: cursor, pipeline: str) -> tuple[str, ...]:
    """Returns the names that the pipeline had before."""
    cur.execute(Q["former_names"], {"pipeline": pipeline})
    return tuple(row.former for row in every(cur))


def staged_types(cur: cursor, attempt: AttemptId) -> tuple[tuple[str, str], ...]:
    """Returns (name, Postgres type) of each decoded column in the staging table."""
    reserved = [name for name, _ in RESERVED_COLUMNS]
    cur.execute(Q["staged_types"], {"table": f"{STAGING_SCHEMA}.{attempt.table}", "reserved": reserved})
    return tuple((row.name, row.type) for row in every(cur))


def require_owned(cur: cursor, attempt: AttemptId) -> None:
    """Raises `Superseded` unless the attempt's commit still owns all offsets of its batch."""
    cur.execute(Q["lost_range"], asdict(attempt))
    if row := maybe(cur):
        where = f"stream {row.stream_id} [{row.from_offset}, {row.until_offset})"
        raise Superseded(f"batch {attempt.batch_id}: {where} is another batch's by now")


def confirm(cur: cursor, attempt: AttemptId, effect: Mapping[str, int]) -> None:
    """Records that the store has the batch's results. A constraint holds the order that the guarantee demands."""
    facts = asdict(attempt) | {"effect": Json(dict(effect))}
    cur.execute(Q["insert_delivery"], facts)


def undelivered(cur: cursor, pipeline: str, batch_id: int | None = None) -> list[Any]:
    """Returns committed offsets without a confirmed delivery, of one batch or of all."""
    cur.execute(Q["undelivered"], {"pipeline": pipeline, "batch_id": batch_id})
    return every(cur)


def former_owners(cur: cursor, pipeline: str) -> list[str]:
    """Returns the pipelines whose tables this one was given."""
    cur.execute(Q["former_owners"], {"pipeline": pipeline})
    return [row.name for row in every(cur)]


def recorded_segments(cur: cursor, pipeline: str) -> list[Any]:
    """Returns every segment that a batch owns, with its counts, its digest, and the digest of its rejects."""
    cur.execute(Q["recorded_segments"], {"pipeline": pipeline})
    return every(cur)
