"""Commits a range: a task's rows, rejects, result and offsets of one stream, in one transaction or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.postgres import PARTITION_ROLE, transaction
from lockstep.adapters.postgres_errors import best_effort
from lockstep.core.engine import RangeOutcome
from lockstep.core.errors import BadData, CoverageMoved, LockTimeout, RowsRefused
from lockstep.core.pipeline.definition import Append
from lockstep.core.pipeline.formats import is_marked
from lockstep.core.proof.accounting import rejects_told, suppressed, too_many_rejects
from lockstep.core.states import Lane, RangeEnd
from lockstep.faults import reach
from lockstep.ledger.batch import commit as ledger
from lockstep.ledger.batch import ranges
from lockstep.ledger.staging.contents import Digests
from lockstep.ledger.staging.staged import reasons_within
from lockstep.ledger.staging.suppression import suppress_range
from lockstep.steps.attempt.refused_record import copied_row_named, first_of_range, with_record
from lockstep.steps.batch.commit_batch import COMMIT_LOCK_SECONDS, COMMIT_TRIES
from lockstep.steps.batch.same_log import began_in_log, require_same_log, require_whole, view_of_topics
from lockstep.steps.feed.announce_changes import number_changes, open_changes
from lockstep.targets import copy, publish, withdraw
from lockstep.targets.proof.published import of_ranges
from lockstep.targets.rows import range_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, BinaryIO

    from psycopg2.extensions import connection, cursor

    from lockstep.core.engine import Pieces
    from lockstep.core.offsets import LogView, StreamRange
    from lockstep.core.proof.accounting import ManifestLine
    from lockstep.steps.ranges.task import RangesOfAttempt


class RangeCommits:
    """One task's connection. It copies rows where no other session sees them, and commits each range by itself.

    Rows with the columns `straight`, if there are any, come with the commit and are copied once. `erased` are the
    columns in which keys were erased. An erasure that comes later refuses the commit (`erased_stays_out`).
    """

    keeps_bytes = False

    def __init__(
        self,
        task: RangesOfAttempt,
        conn: connection,
        straight: tuple[str, ...],
        before: frozenset[int],
        erased: Sequence[Any],
    ) -> None:
        self.straight = straight
        self._erased = erased
        self._before = before
        self._task = task
        self._conn = conn
        self._copied: set[int] = set()
        self._kept: Pieces | None = None
        self._view: LogView | None = None

    def reads_on(self) -> None:
        """Forgets what the log was like, because more has been read since."""
        self._view = None

    def is_committed(self, stream_id: int) -> bool:
        """Returns True if the range's commit row was there when this connection began.

        The acknowledgement of that COMMIT may be lost. `commit` looks again, under the range's lock (T15).
        """
        return stream_id in self._before

    def copy(self, stream_id: int, names: Sequence[str], rows: BinaryIO) -> None:
        """Copies a piece of the range's rows, in a transaction that writes nothing else."""
        if stream_id in self._copied:
            reach("range.copy_mid")
        else:
            reach("range.before_copy")
        with transaction(self._conn, PARTITION_ROLE) as cur, self._task.refused():
            if stream_id not in self._copied:
                ranges.create_rows(cur, stream_id, self._task.columns)
            ranges.copy_range_rows(cur, stream_id, names, rows)
        self._copied.add(stream_id)

    def commit(self, line: ManifestLine, rows: Pieces | None = None, kept: Pieces | None = None) -> RangeOutcome:
        """Asks the log after the read, then commits the range of the line in one transaction.

        Raises `Superseded` when a newer attempt has the batch. A range that data refuses stays as it was.
        """
        item, self._kept = self._task.ranges[line.stream_id], kept
        try:
            starts = self._log_starts(item)
            self._refuse_too_many(item, line)
            for again in range(COMMIT_TRIES):
                try:
                    return self._commit(item, line, rows, starts)
                except LockTimeout:  # nothing was written, and the rows are still there
                    if again == COMMIT_TRIES - 1:
                        raise
        except BadData as error:
            error = self._with_record(error, item)
            return RangeOutcome(
                item.stream_id, RangeEnd.REFUSED, "\n".join(filter(None, (error.message, error.values)))
            )
        except CoverageMoved as error:
            return RangeOutcome(item.stream_id, RangeEnd.MOVED, error.message)
        raise AssertionError(item)

    def _with_record(self, error: BadData, item: StreamRange) -> BadData:
        """Names the first refused record, if the rows were copied into a table of their own."""
        task, found = self._task, None
        if not isinstance(error, RowsRefused) or item.stream_id not in self._copied:
            return error
        with best_effort(), transaction(self._conn, PARTITION_ROLE) as cur:
            found = first_of_range(cur, task.pipeline, task.attempt, task.lane, item.stream_id)
            self._conn.rollback()
        return with_record(error, task.pipeline, found, task.lane) if found else error

    def _commit(
        self, item: StreamRange, line: ManifestLine, rows: Pieces | None, starts: tuple[int, int]
    ) -> RangeOutcome:
        task, stream_id = self._task, item.stream_id
        with transaction(self._conn, PARTITION_ROLE, lock_seconds=COMMIT_LOCK_SECONDS) as cur:
            # Once: other tries at this range are over, and none of them has committed it.
            ranges.lock_range(cur, task.attempt, stream_id)
            if ranges.range_committed_by(cur, task.attempt.batch_id, stream_id) is not None:
                return RangeOutcome(stream_id, RangeEnd.FOUND)
            # Results.
            if self._erased and stream_id in self._copied:
                gone = suppress_range(cur, task.pipeline.name, self._erased, f"pg_temp.range_{stream_id}")
                line = suppressed(line, gone.rows, gone.count(deletions_only=False))
            contents = self._publish(cur, item, line, rows)
            reach("range.published")
            # Fenced: the batch is planned, this attempt is its newest, and both stay so until the transaction ends.
            ranges.require_newest_of_range(cur, task.attempt)
            if task.lane != Lane.LIVE:
                # No overlap: exactly the coverage that was planned to be replaced makes room.
                ledger.give_way(cur, task.attempt, stream_id)
            # Offsets: result, commit row, coverage, position by compare-and-set. Constraints check it at COMMIT.
            read = ranges.RangeRead(line, starts, contents)
            ranges.write_range_ledger(cur, task.attempt, item, read, task.lane, task.definition_hash)
            reach("range.before_commit")
            number_changes(cur, task.pipeline, task.lane)
        reach("range.done_unacknowledged")
        self._copied.discard(stream_id)
        return RangeOutcome(stream_id, RangeEnd.COMMITTED)

    def _publish(self, cur: cursor, item: StreamRange, line: ManifestLine, rows: Pieces | None) -> ranges.Contents:
        """Publishes the range's rows and rejects, and returns their digests.

        For an appended target, the digest is taken of the table itself.
        """
        task, stream_id = self._task, item.stream_id
        with task.refused():
            open_changes(cur, task.pipeline.name, task.pipeline.first, task.attempt.batch_id, stream_id)
            if task.lane == Lane.REPLAY:
                keeps = is_marked(task.pipeline.format)
                withdraw(cur, task.pipeline.first, task.attempt.batch_id, stream_id, keeps=keeps)
                ledger.remove_replaced_rejects(cur, task.attempt, stream_id)
            copied = self._copied_straight(cur, item, rows()) if rows else 0
            if stream_id not in self._copied:
                require_copied(item, line, copied, 0)
                return self._contents(cur, stream_id, None)
            columns = tuple((column.name, column.postgres_type) for column in task.columns)
            is_appended = isinstance(task.pipeline.first, Append)  # its digest is taken of the table itself
            found = ranges.count_rows(cur, stream_id, None if is_appended else columns)
            require_copied(item, line, copied + found.rows, found.rejected)
            if found.rows or found.rejected:
                require_own_rows(item, found)
            ranges.publish_range_rejects(cur, task.attempt, stream_id)
            publish(cur, task.pipeline.first, range_rows(task.attempt, stream_id, found.rows))
            ranges.drop_rows(cur, stream_id)
            return self._contents(cur, stream_id, found)

    def _contents(self, cur: cursor, stream_id: int, found: Any) -> ranges.Contents:
        task, target = self._task, self._task.pipeline.first
        rejects = int(found.rejects_digest) if found else 0
        if not isinstance(target, Append):
            return ranges.Contents(Digests(int(found.rows_digest) if found else 0, rejects))
        names = [column.name for column in task.columns]
        published = of_ranges(cur, target, task.attempt, names, stream_id=stream_id)
        return ranges.Contents(Digests(published.by_stream[stream_id], rejects), published)

    def _copied_straight(self, cur: cursor, item: StreamRange, pieces: Iterable[BinaryIO]) -> int:
        copied = 0
        for number, piece in enumerate(pieces):
            reach("range.copy_mid" if number else "range.before_copy")
            with copied_row_named(item, self.straight, piece):
                copied += copy(cur, self._task.pipeline.first, self.straight, item, piece)
        return copied

    def _log_starts(self, item: StreamRange) -> tuple[int, int]:
        """Returns the log's start before and after the read, on the same, whole log.

        Sends its requests before the transaction (T6, T7).
        """
        task, topic = self._task, item.offsets.topic_partition.topic
        if self._view is None:
            self._view = view_of_topics(task.broker, task.logs)
        planned = (task.attempt.batch_id, task.pipeline.name)
        seen = self._view if began_in_log(item, task.log_starts) else self._view.with_archived(task.archived)
        after = require_same_log(seen, task.logs[topic], item, *planned)
        require_whole(task.broker, self._view, item, task.epochs.get(item.stream_id), *planned)
        return task.log_starts[item.stream_id], after

    def _refuse_too_many(self, item: StreamRange, line: ManifestLine) -> None:
        share = self._task.pipeline.max_reject_share
        if too_many_rejects(line.rejected, line.delivered, share):
            told = rejects_told(line.rejected, line.delivered, share)
            raise BadData(
                f"{self._task.pipeline.name}: {item.offsets}: {told}", values="\n".join(self._reasons(item.stream_id))
            )

    def _reasons(self, stream_id: int) -> list[str]:
        if stream_id not in self._copied:
            return []
        with transaction(self._conn, PARTITION_ROLE) as cur:
            return reasons_within(cur, ranges.rows_of(stream_id), {})


def require_copied(item: StreamRange, line: ManifestLine, rows: int, rejected: int) -> None:
    """Refuses copied rows and rejects whose counts differ from the task's report."""
    if (rows, rejected) != (line.rows, line.rejected):
        raise BadData(
            f"{item.offsets}: copied are (rows, rejects) {(rows, rejected)}, told were {(line.rows, line.rejected)}"
        )
    if line.delivered < line.written + line.rejected:
        raise BadData(
            f"{item.offsets}: {line.delivered} delivered, {line.written} written and {line.rejected} rejected"
        )


def require_own_rows(item: StreamRange, found: Any) -> None:
    """Refuses rows in the range's table that do not belong to the range's records."""
    within = item.offsets.from_offset <= found.first_offset <= found.last_offset < item.offsets.until_offset
    if found.strangers or not within:
        raise BadData(f"{item.offsets}: rows of other records were copied ({found.strangers} of other streams)")
