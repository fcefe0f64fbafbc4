"""Copies a range into its hidden table: a task's rows and manifest line in one transaction, and no offsets."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import PARTITION_ROLE, connect, transaction
from lockstep.core.engine import RangeOutcome
from lockstep.core.errors import BadData, Refusal
from lockstep.core.states import RangeEnd
from lockstep.faults import reach
from lockstep.ledger.batch import commit as ledger
from lockstep.ledger.batch import hidden, ranges
from lockstep.ledger.staging.contents import Digests
from lockstep.ledger.staging.quarantine import copy_raw
from lockstep.steps.batch.commit_batch import COMMIT_LOCK_SECONDS
from lockstep.steps.ranges.commit_range import RangeCommits, require_copied, require_own_rows
from lockstep.steps.ranges.task import RangesOfAttempt
from lockstep.targets import straight
from lockstep.targets.proof.published import of_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg2.extensions import connection, cursor

    from lockstep.core.engine import Pieces
    from lockstep.core.offsets import StreamRange
    from lockstep.core.proof.accounting import ManifestLine
    from lockstep.ledger.staging.contents import Published


@dataclass(frozen=True, slots=True)
class RangesWrittenOnce(RangesOfAttempt):
    """One attempt's ranges, whose rows go into the table behind the view `shown`. The pipeline's target is that table."""

    shown: str = ""
    keeps_bytes: bool = False
    may_cut: bool = False

    def of_part(self, part: Sequence[StreamRange]) -> RangesWrittenOnce:
        """Returns the same with these ranges, or pieces of them, for one task."""
        return replace(self, ranges={item.stream_id: item for item in part})

    @contextmanager
    def session(self) -> Iterator[RangeLandings]:
        """Connects, and records the connection so that a newer attempt can end it."""
        conn = connect(self.dsn, name=f"lockstep range {self.attempt.batch_id}.{self.attempt.token}")
        try:
            with transaction(conn, None) as cur:
                backend = ledger.my_backend(cur)
            with transaction(conn, PARTITION_ROLE) as cur:
                ranges.record_task(cur, self.attempt, backend)
                names = straight(cur, self.pipeline.first, self.columns)
            if not names:
                raise Refusal(
                    f"{self.pipeline.name}: {self.pipeline.first.table} was altered while batch {self.attempt.batch_id} "
                    "was read",
                    next_command=f"lockstep run {self.pipeline.name}",
                )
            yield self.landings(conn, names)
        finally:
            conn.close()

    def landings(self, conn: connection, names: tuple[str, ...]) -> RangeLandings:
        """Returns the session of a task that copies into the table."""
        return RangeLandings(self, conn, names, frozenset(), ())


class RangeLandings(RangeCommits):
    """One task's connection. Each range lands by itself, and the batch's commit shows them all.

    The log is asked, and rejects are judged, by `validate`.
    """

    _task: RangesWrittenOnce

    @property
    def keeps_bytes(self) -> bool:  # type: ignore[override]
        """Returns True if an expectation may quarantine records. Their bytes are then kept until it has judged."""
        return self._task.keeps_bytes

    def is_committed(self, stream_id: int) -> bool:
        """Returns True if the offsets were copied. `commit` looks again, and refuses offsets of which a part was."""
        with suppress(BadData), transaction(self._conn, PARTITION_ROLE) as cur:
            return hidden.has_landed(cur, self._task.attempt, self._task.ranges[stream_id])
        return False

    def _log_starts(self, _item: StreamRange) -> tuple[int, int]:
        return (0, 0)

    def _refuse_too_many(self, item: StreamRange, line: ManifestLine) -> None:
        pass

    def _commit(
        self, item: StreamRange, line: ManifestLine, rows: Pieces | None, _starts: tuple[int, int]
    ) -> RangeOutcome:
        task, stream_id = self._task, item.stream_id
        with transaction(self._conn, PARTITION_ROLE, lock_seconds=COMMIT_LOCK_SECONDS) as cur:
            # Once: other tries at this range are over, and none of them has copied it.
            ranges.lock_range(cur, task.attempt, stream_id, item.offsets.from_offset)
            if hidden.has_landed(cur, task.attempt, item):
                return RangeOutcome(stream_id, RangeEnd.FOUND)
            # Results: hidden from the view, as the batch is since its attempt was opened.
            with task.refused():
                contents = self._copied_and_counted(cur, item, line, rows)
            reach("land.copied")
            # Fenced: the batch is planned, this attempt is its newest, and both stay so until the transaction ends.
            ranges.require_newest_of_range(cur, task.attempt)
            hidden.land(cur, task.attempt, item, line, contents, task.shown)
            reach("land.before_commit")
        reach("land.done_unacknowledged")
        self._copied.discard(stream_id)
        return RangeOutcome(stream_id, RangeEnd.COMMITTED)

    def _copied_and_counted(
        self, cur: cursor, item: StreamRange, line: ManifestLine, rows: Pieces | None
    ) -> ranges.Contents:
        """Copies the range's rows, keeps its rejects, and holds both against the line.

        The table itself is looked at: it holds the rows that were told, and none that another attempt left.
        """
        task, stream_id = self._task, item.stream_id
        for piece in self._kept() if self._kept else ():
            copy_raw(cur, task.attempt, piece)
        copied = self._copied_straight(cur, item, rows()) if rows else 0
        rejects, rejected = 0, 0
        if stream_id in self._copied:
            found = ranges.count_rows(cur, stream_id, None)
            rejects, rejected = int(found.rejects_digest), found.rejected
            if found.rows or found.rejected:
                require_own_rows(item, found)
            copied += found.rows
            hidden.give_rejects(cur, task.attempt, stream_id, line.task)
            ranges.drop_rows(cur, stream_id)
        require_copied(item, line, copied, rejected)
        held = self._held(cur, item)
        if held.counts[stream_id] != line.rows:
            raise BadData(
                f"{item.offsets}: {task.pipeline.first.table} holds {held.counts[stream_id]} rows of batch "
                f"{task.attempt.batch_id} there, and {line.rows} were copied: another attempt's are among them"
            )
        return ranges.Contents(Digests(held.by_stream[stream_id], rejects), held)

    def _held(self, cur: cursor, item: StreamRange) -> Published:
        task, names = self._task, [column.name for column in self._task.columns]
        return of_ranges(cur, task.pipeline.first, task.attempt, names, stream_id=item.stream_id, within=item.offsets)
