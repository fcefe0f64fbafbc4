"""Runs the statements of one commit, in the order of its locks (T16)."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from psycopg2 import errors, sql
from psycopg2.extras import Json

from lockstep.adapters.connection.roles import become
from lockstep.core.errors import BadData, CoverageMoved, PositionMoved, Refusal
from lockstep.core.staging import STAGING_SCHEMA, AttemptId
from lockstep.core.states import AttemptState, Lane
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe, one
from lockstep.ledger.staging.staged import staging

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger.batch", "commit")


def my_backend(cur: cursor) -> Any:
    """Returns process id and start time of this connection's backend. Call it as the login itself."""
    cur.execute(Q["my_backend"])
    return one(cur)


def record_backend(cur: cursor, attempt: AttemptId, backend: Any) -> None:
    """Records the connection that is about to commit, so that a resolver can find it."""
    facts = {"pid": backend.pid, "backend_start": backend.backend_start}
    cur.execute(Q["record_backend"], asdict(attempt) | facts)


def committed_by(cur: cursor, batch_id: int) -> AttemptId | None:
    """Returns the attempt that committed this batch, or None. Its answer proves a commit."""
    cur.execute(Q["committed_by"], {"batch_id": batch_id})
    row = maybe(cur)
    return AttemptId(batch_id, row.token, row.nonce) if row else None


def require_validated(cur: cursor, attempt: AttemptId) -> None:
    """Raises `Refusal` unless the attempt is validated and its own verdict is a success."""
    cur.execute(Q["attempt_to_commit"], asdict(attempt))
    row = maybe(cur)
    if row is None or row.state != AttemptState.VALIDATED or not row.success:
        state = row.state if row else "unknown"
        raise Refusal(
            f"attempt {attempt.token} of batch {attempt.batch_id} is {state}, not validated: it cannot commit"
        )


def require_positions(cur: cursor, attempt: AttemptId) -> None:
    """Locks the streams in order. Raises `PositionMoved` unless a live batch begins at every position."""
    cur.execute(Q["lock_streams"], asdict(attempt))
    for row in every(cur):
        if row.retired or row.position != row.from_offset:
            raise PositionMoved(
                f"{row.topic}-{row.partition}: batch {attempt.batch_id} begins at {row.from_offset}, "
                f"the position is {row.position}{' and the stream is retired' if row.retired else ''}"
            )


def give_way(cur: cursor, attempt: AttemptId, stream_id: int | None = None) -> None:
    """Removes exactly the coverage that a fill or replay was planned to replace.

    Keeps the rest of a skip that is cut. `stream_id` limits this to the claims of one stream. Raises `CoverageMoved` if
    other coverage lies under the claims.
    """
    gone = 0
    for _ in range(2):  # a neighbour's commit may have cut the same skipped stretch while the first look waited for it
        cur.execute(Q["give_way"], asdict(attempt) | {"stream_id": stream_id})
        removed = every(cur)
        gone += len(removed)
        for row in removed:
            for begin, end in ((row.from_offset, row.claimed_from), (row.claimed_until, row.until_offset)):
                if begin < end:
                    rest = {"stream_id": row.stream_id, "from_offset": begin, "until_offset": end}
                    cur.execute(Q["keep_skipped"], rest)
    cur.execute(Q["not_as_expected"], asdict(attempt) | {"stream_id": stream_id})
    found = one(cur)
    if found.expected != gone or found.in_the_way:
        raise CoverageMoved(
            f"batch {attempt.batch_id}: {gone} of {found.expected} segments that it replaces are still there, and "
            f"{found.in_the_way} others lie in their place"
        )


def publish_rejects(cur: cursor, attempt: AttemptId) -> int:
    """Publishes the rejects in the same transaction, after those of replaced segments are removed.

    Returns their number.
    """
    remove_replaced_rejects(cur, attempt)
    cur.execute(sql.SQL(Q["publish_rejects"]).format(table=staging(attempt)), asdict(attempt))
    return cur.rowcount


def remove_replaced_rejects(cur: cursor, attempt: AttemptId, stream_id: int | None = None) -> None:
    """Removes the rejects of the segments that a replay replaces: it judges their records again."""
    cur.execute(Q["remove_replaced_rejects"], asdict(attempt) | {"stream_id": stream_id})


def write_ledger(cur: cursor, attempt: AttemptId, lane: Lane, effect: Mapping[str, Any], definition_hash: str) -> None:
    """Writes commit rows and coverage, releases claims, closes attempt and batch. The live lane moves its positions.

    Moves positions by compare-and-set. `definition_hash` names the published folder. A foreign key holds it to be the
    attempt's.
    """
    cur.execute(Q["insert_commits"], asdict(attempt) | {"definition_hash": definition_hash})
    ranges = cur.rowcount
    try:
        cur.execute(Q["insert_coverage"], asdict(attempt))
    except errors.ExclusionViolation as error:
        raise CoverageMoved(f"batch {attempt.batch_id}: {error.diag.message_detail}") from None
    if lane == Lane.LIVE:
        cur.execute(Q["move_positions"], asdict(attempt))
        if cur.rowcount != ranges:
            raise PositionMoved(
                f"batch {attempt.batch_id}: {ranges - cur.rowcount} of {ranges} positions are not where it begins"
            )
    close(cur, attempt, effect)


def close(cur: cursor, attempt: AttemptId, effect: Mapping[str, int]) -> None:
    """Closes attempt and batch as committed, and releases the batch's claims."""
    cur.execute(Q["close_attempt"], asdict(attempt) | {"effect": Json(dict(effect))})
    if cur.rowcount != 1:
        raise BadData(f"attempt {attempt.token} of batch {attempt.batch_id} could not be closed as committed")
    cur.execute(Q["release_claims"], asdict(attempt))
    cur.execute(Q["close_batch"], asdict(attempt))


def end_backend(cur: cursor, attempt: AttemptId) -> None:
    """Ends the connection that was committing this attempt. Goes on as the login itself."""
    cur.execute(Q["backend_of"], asdict(attempt))
    end_backends(cur, every(cur))


def end_backends(cur: cursor, recorded: Sequence[Any]) -> None:
    """Ends connections that are still the ones that were recorded. Goes on as the login itself.

    A role of a run may not end a login's connection. A login that inherits nothing may not read whose it is.
    """
    become(cur, "none")
    starts = {"pids": [row.pid for row in recorded], "starts": [row.backend_start for row in recorded]}
    cur.execute(Q["end_backends"], starts)


def committed_ranges(cur: cursor, batch_id: int) -> list[Any]:
    """Returns the batch's ranges, each with its recorded counts."""
    cur.execute(Q["committed_ranges"], {"batch_id": batch_id})
    return every(cur)


def staging_left(cur: cursor) -> list[sql.Identifier]:
    """Returns the staging tables of attempts that cannot commit any more."""
    cur.execute(Q["staging_left"])
    return [sql.Identifier(STAGING_SCHEMA, row.table_name) for row in every(cur)]


def staging_of(cur: cursor, attempt: AttemptId) -> list[sql.Identifier]:
    """Returns every staging table of the attempt."""
    cur.execute(Q["staging_of"], {"table": attempt.table})
    return [sql.Identifier(STAGING_SCHEMA, row.table_name) for row in every(cur)]


def end_stagers(cur: cursor, stager: str) -> None:
    """Ends the sessions of this name, which stage for one attempt. Call it as the login itself."""
    cur.execute(Q["end_stagers"], {"name": stager})


def wait_for_no_standby(cur: cursor) -> None:
    """Makes this transaction's COMMIT independent of any standby. Use it only for work that may be repeated."""
    cur.execute(Q["wait_for_no_standby"])


def drop_staging_table(cur: cursor, table: sql.Identifier) -> None:
    """Drops a staging table that is no longer needed."""
    cur.execute(sql.SQL(Q["drop_staging"]).format(table=table))
