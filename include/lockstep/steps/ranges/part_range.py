"""Makes a part of a table by batch in the task that reads the range.

Its rows, keys and manifest line are one transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.faults import reach
from lockstep.ledger.batch import parts
from lockstep.steps.ranges.land_range import RangeLandings, RangesWrittenOnce
from lockstep.targets.proof.published import of_part

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

    from psycopg2 import sql
    from psycopg2.extensions import connection, cursor

    from lockstep.core.offsets import StreamRange
    from lockstep.ledger.staging.contents import Published


@dataclass(frozen=True, slots=True)
class RangesInParts(RangesWrittenOnce):
    """One attempt's ranges, each of which becomes a table of its own. The pipeline's target is the table by batch."""

    def landings(self, conn: connection, names: tuple[str, ...]) -> PartLandings:
        """Returns the session of a task that makes parts."""
        return PartLandings(self, conn, names, frozenset(), ())


class PartLandings(RangeLandings):
    """One task's connection. Nobody sees the part of a range before the batch's commit attaches it."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._parts: dict[int, sql.SQL] = {}

    def _copied_straight(self, cur: cursor, item: StreamRange, pieces: Iterable[BinaryIO]) -> int:
        """Makes the range's part of these rows. A range without rows has none."""
        task, stream_id, copied = self._task, item.stream_id, 0
        self._parts.pop(stream_id, None)
        for number, piece in enumerate(pieces):
            if number == 0:
                self._parts[stream_id] = parts.make_part(cur, task.shown, task.attempt, stream_id)
            reach("range.copy_mid" if number else "range.before_copy")
            copied += parts.copy_into(cur, self._parts[stream_id], self.straight, item, piece)
        if copied:
            reach("part.copied")
            parts.close_part(cur, task.attempt, stream_id)
        return copied

    def _held(self, cur: cursor, item: StreamRange) -> Published:
        names = [column.name for column in self._task.columns]
        return of_part(cur, self._task.pipeline.first, names, item.stream_id, self._parts.get(item.stream_id))
