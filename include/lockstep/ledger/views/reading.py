"""Reads progress and history from the ledger, mostly as documents that can be shown or sent as JSON."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lockstep.ledger.batch import spark_runs
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger.views", "reading")
Document = dict[str, Any]
PREVIEW_BYTES = 200


def stream_progress(cur: cursor, pipeline: str) -> list[Any]:
    """Returns the open streams as rows: identity, start, position, and the newest timestamp of the last records."""
    cur.execute(Q["progress"], {"pipeline": pipeline})
    return every(cur)


def sessions_staging(cur: cursor, batch_id: int) -> list[Any]:
    """Returns `pid, backend_start, rows` of each session that stages the batch now. Call it as the login itself."""
    cur.execute(Q["sessions_staging"], {"sessions": f"lockstep stage {int(batch_id)}.%"})
    return every(cur)


def read_holes(cur: cursor, pipeline: str, log_starts: Mapping[int, int]) -> list[Document]:
    """Returns the offsets of open streams that no batch covers, as `uncovered`, `skipped` or `loss`.

    Includes losses below log start. `log_starts` is by stream. Searches a stream without one from its own start.
    """
    known = {"streams": list(log_starts), "log_starts": list(log_starts.values())}
    cur.execute(Q["holes"], {"pipeline": pipeline} | known)
    return documents(every(cur))


def read_rejects(
    cur: cursor, pipeline: str, partition: int | None, batch_id: int | None, limit: int, topic: str | None = None
) -> tuple[list[Document], list[Document]]:
    """Returns the first `limit` rejects with the beginnings of their bytes, and the count of each reason over all."""
    asked = {"pipeline": pipeline, "topic": topic, "partition": partition, "batch": batch_id}
    cur.execute(Q["rejects"], asked | {"limit": limit, "bytes": PREVIEW_BYTES})
    found = documents(every(cur))
    cur.execute(Q["reject_reasons"], asked)
    return found, documents(every(cur))


def read_batches(cur: cursor, pipeline: str, last: int | None = None) -> list[Document]:
    """Returns a pipeline's batches, the oldest first. `last` limits them to the newest ones."""
    cur.execute(Q["batch_ids"], {"pipeline": pipeline, "last": last})
    return batches_of(cur, [row.batch_id for row in every(cur)])


def read_batch(cur: cursor, batch_id: int) -> Document | None:
    """Returns one batch with its attempts, verdict and delivery, or None if the ledger has no such batch."""
    found = batches_of(cur, [batch_id])
    if not found:
        return None
    cur.execute(Q["attempts"], {"batch_id": batch_id})
    attempts = documents(every(cur), {"token": "attempt"})
    spark = (
        spark_runs.spark_runs_of_batch(cur, batch_id) if any(row["spark_application_id"] for row in attempts) else {}
    )
    attempts = [row | {"spark": spark.get(row["attempt"])} for row in attempts]
    cur.execute(Q["verdict"], {"batch_id": batch_id})
    verdicts = documents(every(cur), {"token": "attempt"})
    cur.execute(Q["delivery"], {"batch_id": batch_id})
    delivery = one(cur)
    newest = (
        attempts[-1] if attempts else dict.fromkeys(("opened_at", "staged_at", "validated_at", "closed_at", "effect"))
    )
    return found[0] | {
        "attempts": attempts,
        "verdict": verdicts[0] if verdicts else None,
        "seconds": _seconds(found[0], newest),
        "effect": newest["effect"],
        **delivery._asdict(),
    }


def documents(rows: Iterable[Any], renamed: Mapping[str, str] = MappingProxyType({})) -> list[Document]:
    """Converts rows to documents. `renamed` maps columns to their public names."""
    return [{renamed.get(name, name): value for name, value in row._asdict().items()} for row in rows]


def batches_of(cur: cursor, ids: Sequence[int]) -> list[Document]:
    """Returns these batches, the oldest first, each with its ranges and counts."""
    cur.execute(Q["batches"], {"batches": list(ids)})
    found = documents(every(cur), {"batch_id": "batch"})
    cur.execute(Q["ranges"], {"batches": list(ids)})
    ranges: dict[int, list[Document]] = {}
    for row in documents(every(cur)):
        ranges.setdefault(row.pop("batch_id"), []).append(row)
    return [
        document
        | {
            "rows_written": sum(r["written"] or 0 for r in ranges.get(document["batch"], [])),
            "rows_rejected": sum(r["rejected"] or 0 for r in ranges.get(document["batch"], [])),
            "ranges": ranges.get(document["batch"], []),
        }
        for document in found
    ]


def _seconds(batch: Document, attempt: Document) -> dict[str, float | None]:
    """Returns the seconds of the newest attempt's steps, and of the batch from plan to close."""
    return {
        "stage": _between(attempt["opened_at"], attempt["staged_at"]),
        "validate": _between(attempt["staged_at"], attempt["validated_at"]),
        "commit": _between(attempt["validated_at"], attempt["closed_at"]),
        "total": _between(batch["planned_at"], batch["closed_at"]),
    }


def _between(begin: datetime | None, end: datetime | None) -> float | None:
    return round((end - begin).total_seconds(), 3) if begin and end else None
