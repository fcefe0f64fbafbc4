"""Keeps what an attempt has read: its tasks' lines, the counts of each stream, and the verdict."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from psycopg2.extras import Json, execute_values

from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.proof.accounting import ManifestLine
    from lockstep.core.staging import AttemptId

Q = queries("lockstep.ledger.batch", "results")


def insert_manifest(
    cur: cursor,
    attempt: AttemptId,
    lines: Sequence[ManifestLine],
    contents: Mapping[tuple[int, int], tuple[int, int]],
) -> None:
    """Records the manifest lines of winning tasks, with the digests of their rows and rejects by (task, stream)."""
    rows = [
        (
            *(attempt.batch_id, attempt.token, line.task, line.stream_id, line.delivered, line.written, line.rejected),
            *(line.rows, line.bytes, line.digest.sum, line.digest.squares, line.first_offset, line.last_offset),
            *(line.min_timestamp, line.max_timestamp, *contents.get((line.task, line.stream_id), (0, 0))),
        )
        for line in lines
    ]
    if rows:
        execute_values(cur, Q["insert_manifest"], rows)


def stream_totals(cur: cursor, attempt: AttemptId) -> list[Any]:
    """Adds up the kept manifests per stream. Includes streams that delivered nothing."""
    cur.execute(Q["stream_totals"], asdict(attempt))
    return every(cur)


def insert_results(
    cur: cursor, attempt: AttemptId, totals: Sequence[Any], starts: Mapping[int, tuple[int, int]]
) -> None:
    """Records the reconciled counts of each stream. `starts` are log starts before and after the read."""
    rows = [
        (
            *(attempt.batch_id, attempt.token, t.stream_id, t.delivered, t.written),
            *(t.delivered - t.written - t.rejected, t.rejected, t.quarantined, t.rows, t.bytes),
            *(t.first_offset, t.last_offset, t.min_timestamp, t.max_timestamp),
            *(t.digest_sum, t.digest_squares, *starts[t.stream_id], t.rows_digest, t.rejects_digest),
        )
        for t in totals
    ]
    execute_values(cur, Q["insert_result"], rows)


def insert_verdict(
    cur: cursor,
    attempt: AttemptId,
    folder: PipelineFolder,
    suite: str | None,
    *,
    success: bool,
    result: Mapping[str, Any],
) -> None:
    """Records the verdict, passed or not, with the definition that it was found under."""
    facts = {"suite": suite, "success": success, "result": Json(result), "definition_hash": folder.content_hash()}
    cur.execute(Q["insert_verdict"], asdict(attempt) | facts)
