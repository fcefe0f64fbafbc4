"""Commits one range of a batch. The batch is locked in share mode, and the driver closes it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from psycopg2 import errors, sql

from lockstep.core.errors import CoverageMoved, DefinitionChanged, PositionMoved, Refusal, Superseded
from lockstep.core.records import RESERVED_COLUMNS
from lockstep.core.staging import COPY_SIZE
from lockstep.core.states import BatchState, Lane
from lockstep.ledger.batch.attempts import require_same_timeline
from lockstep.ledger.batch.commit import end_backends
from lockstep.ledger.batch.results import insert_manifest, insert_results
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import typed_columns
from lockstep.ledger.rows import every, maybe, one
from lockstep.ledger.staging import digests
from lockstep.ledger.staging.contents import NO_DIGESTS, Digests, keep_digests
from lockstep.ledger.version import require_version

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from psycopg2.extensions import cursor

    from lockstep.core.offsets import StreamRange
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.proof.accounting import ManifestLine
    from lockstep.core.staging import AttemptId
    from lockstep.ledger.staging.contents import Published

Q = queries("lockstep.ledger.batch", "ranges")
PROMOTED = "promoted_alone"  # a promotion that came while the range was read
STATEMENT_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Contents:
    """The digests of a range's rows and rejects, and the shape and digest of the rows for an appended target."""

    digests: Digests = NO_DIGESTS
    published: Published | None = None


@dataclass(frozen=True, slots=True)
class RangeRead:
    """One range after its read: the manifest line, the log's starts before and after the read, and the contents."""

    line: ManifestLine
    log_starts: tuple[int, int]
    contents: Contents = Contents()


def record_task(cur: cursor, attempt: AttemptId, backend: Any) -> None:
    """Records the connection that a task commits over, and limits the duration of its statements."""
    cur.execute(Q["limit_statements"], {"milliseconds": str(STATEMENT_SECONDS * 1000)})
    facts = {"pid": backend.pid, "backend_start": backend.backend_start}
    cur.execute(Q["record_task"], asdict(attempt) | facts)
    if cur.rowcount != 1:
        raise Superseded(f"attempt {attempt.token} of batch {attempt.batch_id} is not in this ledger: it was restored")


def end_older_tasks(cur: cursor, batch_id: int) -> None:
    """Ends every recorded task of the batch that still runs. Goes on as the login itself (T16)."""
    cur.execute(Q["older_tasks"], {"batch_id": batch_id})
    end_backends(cur, every(cur))


def rows_of(stream_id: int) -> sql.Identifier:
    """Returns the name of the temporary table for one range's rows."""
    return sql.Identifier("pg_temp", f"range_{stream_id}")


def create_rows(cur: cursor, stream_id: int, columns: Sequence[Column]) -> None:
    """Creates the table for a range's rows, with the columns of a staging table."""
    typed = typed_columns([*RESERVED_COLUMNS, *((column.name, column.postgres_type) for column in columns)])
    cur.execute(sql.SQL(Q["create_rows"]).format(rows=rows_of(stream_id), columns=typed))


def copy_range_rows(cur: cursor, stream_id: int, names: Sequence[str], rows: BinaryIO) -> None:
    """Copies rows, in COPY's binary format, into the range's table."""
    columns = sql.SQL(", ").join(map(sql.Identifier, names))
    cur.copy_expert(sql.SQL(Q["copy_rows"]).format(rows=rows_of(stream_id), columns=columns), rows, COPY_SIZE)


def drop_rows(cur: cursor, stream_id: int) -> None:
    """Drops the range's table, after its rows are published or not wanted."""
    cur.execute(sql.SQL(Q["drop_rows"]).format(rows=rows_of(stream_id)))


def count_rows(cur: cursor, stream_id: int, columns: digests.DigestColumns | None) -> Any:
    """Counts the rows in the range's table, with the digests of rejects and, given `columns`, of rows."""
    row = sql.SQL("0") if columns is None else digests.row_digest(columns, 0, marks_deletions=True)
    parts = {"row": row, "reject": digests.staged_reject()}
    cur.execute(sql.SQL(Q["count_rows"]).format(rows=rows_of(stream_id), **parts), {"stream_id": stream_id})
    return one(cur)


def lock_range(cur: cursor, attempt: AttemptId, stream_id: int, from_offset: int | None = None) -> None:
    """Waits until no other try at this range is under way, or at its piece that begins at this offset."""
    cur.execute(Q["lock_range"], asdict(attempt) | {"stream_id": stream_id, "from_offset": from_offset})


def committed_streams(cur: cursor, batch_id: int) -> frozenset[int]:
    """Returns the streams whose range of this batch has its commit row."""
    cur.execute(Q["committed_streams"], {"batch_id": batch_id})
    return frozenset(row.stream_id for row in every(cur))


def range_committed_by(cur: cursor, batch_id: int, stream_id: int) -> int | None:
    """Returns the token that committed this range, or None."""
    cur.execute(Q["range_committed"], {"batch_id": batch_id, "stream_id": stream_id})
    row = maybe(cur)
    return row.token if row else None


def require_newest_of_range(cur: cursor, attempt: AttemptId) -> None:
    """Fences (T1, T15): raises `Superseded` unless the batch is planned and has this attempt's token and nonce.

    Its share lock keeps that true until the transaction ends.
    """
    cur.execute(Q["share_batch"], asdict(attempt))
    batch = maybe(cur)
    if batch is not None:
        require_version(batch.ledger_version)
    if batch is None or batch.state != BatchState.PLANNED or batch.token != attempt.token:
        found = f"{batch.state}, at attempt {batch.token}" if batch else "not there"
        raise Superseded(f"attempt {attempt.token} of batch {attempt.batch_id} may not commit: the batch is {found}")
    require_same_timeline(attempt, batch.nonce)


def publish_range_rejects(cur: cursor, attempt: AttemptId, stream_id: int) -> int:
    """Publishes the range's rejects in its transaction. Returns their number."""
    cur.execute(sql.SQL(Q["publish_range_rejects"]).format(rows=rows_of(stream_id)), asdict(attempt))
    return cur.rowcount


def write_range_ledger(
    cur: cursor,
    attempt: AttemptId,
    item: StreamRange,
    read: RangeRead,
    lane: Lane,
    definition_hash: str,
) -> None:
    """Writes manifest, counts, digests, commit row and coverage, and releases the claim.

    The live lane moves its position by compare-and-set.
    """
    named = asdict(attempt) | {"stream_id": item.stream_id, "definition_hash": definition_hash}
    line, contents = read.line, read.contents
    if line.delivered:
        insert_manifest(cur, attempt, [line], {(line.task, line.stream_id): contents.digests})
    insert_results(cur, attempt, [_total(line, contents.digests)], {item.stream_id: read.log_starts})
    published = {0: contents.published} if contents.published else {}
    keep_digests(cur, attempt, {(0, item.stream_id): contents.digests}, published)
    try:
        cur.execute(Q["insert_range_commit"], named)
    except errors.CheckViolation as error:
        if error.diag.constraint_name != PROMOTED:
            raise
        raise DefinitionChanged(f"{error.diag.message_primary}; the next run reads the range again") from None
    try:
        cur.execute(Q["insert_range_coverage"], named)
    except errors.ExclusionViolation as error:
        raise CoverageMoved(f"batch {attempt.batch_id}: {error.diag.message_detail}") from None
    if lane == Lane.LIVE:
        cur.execute(Q["move_position"], named)
        if cur.rowcount != 1:
            raise PositionMoved(f"{item.offsets}: the position of batch {attempt.batch_id} is not where it begins")
    cur.execute(Q["release_range"], named)


def require_all_ranges(cur: cursor, batch_id: int) -> None:
    """Raises `Refusal` unless every range of the batch is committed. Names the first one that is not."""
    cur.execute(Q["ranges_not_committed"], {"batch_id": batch_id})
    left = every(cur)
    if left:
        first = left[0]
        raise Refusal(
            f"{first.topic}-{first.partition} [{first.from_offset}, {first.until_offset}): batch {batch_id} has not "
            f"committed this range ({len(left)} are left)",
            next_command=f"lockstep batch {batch_id}",
        )


def recorded_ranges(cur: cursor, batch_id: int) -> list[Any]:
    """Returns the recorded counts of each committed range, and the number of its rejects in the ledger."""
    cur.execute(Q["recorded_ranges"], {"batch_id": batch_id})
    return every(cur)


def _total(line: ManifestLine, digests_: Digests) -> SimpleNamespace:
    names = ("stream_id", "delivered", "written", "rejected", "rows", "bytes", "first_offset", "last_offset")
    fields = {name: getattr(line, name) for name in (*names, "min_timestamp", "max_timestamp")}
    digest = {"digest_sum": line.digest.sum, "digest_squares": line.digest.squares}
    return SimpleNamespace(
        **fields, **digest, quarantined=0, rows_digest=digests_.rows, rejects_digest=digests_.rejects
    )
