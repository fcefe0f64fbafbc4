"""Which run has asked for which request, what a reviewer was shown of it, and what a run has decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg2.extras import Json

from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe, one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger", "history")


def insert_request_call(cur: cursor, pipeline: str, key: str, request_id: int) -> None:
    """A run has asked for this request; asked again under the same key it is found."""
    cur.execute(Q["insert_request_call"], {"pipeline": pipeline, "key": key, "request_id": request_id})


def requests_of_call(cur: cursor, pipeline: str, key: str) -> list[Any]:
    """What a run has asked for, as rows (request_id, lane, preview, closed, who, why), the oldest first."""
    cur.execute(Q["requests_of_call"], {"pipeline": pipeline, "key": key})
    return every(cur)


def committed_by_requests(cur: cursor, requests: Sequence[int]) -> list[Any]:
    """The batches that have committed for these requests, as rows (batch_id, token)."""
    cur.execute(Q["committed_by_requests"], {"requests": list(requests)})
    return every(cur)


def insert_rehearsal(cur: cursor, request_id: int, content_hash: str, difference: dict[str, Any]) -> None:
    """Keeps what a preview has found, and under which code; the ledger refuses it for anything but a preview."""
    facts = {"request_id": request_id, "content_hash": content_hash, "difference": Json(difference)}
    cur.execute(Q["insert_rehearsal"], facts)


def rehearsal(cur: cursor, request_id: int) -> Any | None:
    """What a preview has found, as a row (content_hash, difference, at); None before it went through to the end."""
    cur.execute(Q["rehearsal"], {"request_id": request_id})
    return maybe(cur)


def committed_since(cur: cursor, request_id: int) -> list[int]:
    """The batches that have committed offsets of a request's windows after it was opened."""
    cur.execute(Q["committed_since"], {"request_id": request_id})
    return [row.batch_id for row in every(cur)]


def decided_by_run(cur: cursor, pipeline: str, kind: str, run: str) -> bool:
    """Whether a run has taken this decision already, so that a later try of its task does not take it twice."""
    cur.execute(Q["decided_by_run"], {"pipeline": pipeline, "kind": kind, "run": run})
    found: bool = one(cur).decided
    return found
