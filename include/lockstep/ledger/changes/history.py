"""Records the requests of a run, the rehearsal shown to a reviewer, and the decisions of a run."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from psycopg2.extras import Json

from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe, one

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger.changes", "history")


def insert_request_call(cur: cursor, pipeline: str, key: str, request_id: int) -> None:
    """Records that a run has opened this request, to be found again under the same key."""
    cur.execute(Q["insert_request_call"], {"pipeline": pipeline, "key": key, "request_id": request_id})


def requests_of_call(cur: cursor, pipeline: str, key: str, *, preview: bool) -> list[int]:
    """Returns a run's requests or its previews, the oldest first."""
    cur.execute(Q["requests_of_call"], {"pipeline": pipeline, "key": key, "preview": preview})
    return [row.request_id for row in every(cur)]


def has_asked_before(cur: cursor, pipeline: str, key: str, moment: datetime) -> bool:
    """Returns True if a key has stood for a request that was opened before this moment."""
    cur.execute(Q["has_asked_before"], {"pipeline": pipeline, "key": key, "moment": moment})
    found: bool = one(cur).has_asked
    return found


def committed_by_requests(cur: cursor, requests: Sequence[int]) -> list[Any]:
    """Returns the committed batches of these requests, as rows (batch_id, token)."""
    cur.execute(Q["committed_by_requests"], {"requests": list(requests)})
    return every(cur)


def insert_rehearsal(cur: cursor, request_id: int, content_hash: str, difference: dict[str, Any]) -> None:
    """Records the difference that a preview found, with its code's hash.

    The ledger refuses other requests than previews.
    """
    facts = {"request_id": request_id, "content_hash": content_hash, "difference": Json(difference)}
    cur.execute(Q["insert_rehearsal"], facts)


def rehearsal(cur: cursor, request_id: int) -> Any | None:
    """Returns a preview's difference as a row (content_hash, difference, at), or None before the preview has ended."""
    cur.execute(Q["rehearsal"], {"request_id": request_id})
    return maybe(cur)


def committed_since(cur: cursor, request_id: int) -> list[int]:
    """Returns the batches that have committed offsets of a request's windows after it was opened."""
    cur.execute(Q["committed_since"], {"request_id": request_id})
    return [row.batch_id for row in every(cur)]


def decided_by_run(
    cur: cursor, pipeline: str, kind: str, run: str, about: Mapping[str, Any] = MappingProxyType({})
) -> bool:
    """Returns True if a run has already taken this decision about these facts. A retry of its task does not repeat it."""
    known = {"pipeline": pipeline, "kind": kind, "run": run, "about": Json(dict(about))}
    cur.execute(Q["decided_by_run"], known)
    found: bool = one(cur).decided
    return found


def requests_of_run(cur: cursor, pipeline: str, run_id: str) -> list[Any]:
    """Returns a DAG run's requests as rows (request_id, lane, preview, closed, opened_at, who, why), the oldest first.

    Those from before it was cleared belong to it, too.
    """
    cur.execute(Q["requests_of_run"], {"pipeline": pipeline, "run": run_id})
    return every(cur)


def decisions_of_run(cur: cursor, pipeline: str, run_id: str) -> list[Any]:
    """Returns the decisions by a DAG run, or about it, as rows (kind, who, why, at), the oldest first."""
    cur.execute(Q["decisions_of_run"], {"pipeline": pipeline, "run": run_id})
    return every(cur)
