"""Compares each row of an appended table with what the transform makes of its record again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.proof.verification import Share, Wrong
from lockstep.ledger.proof import verify as ledger
from lockstep.ledger.proof.verify_erased import erased_offsets
from lockstep.steps.rerun.again import RowsAgain

if TYPE_CHECKING:
    from lockstep.core.proof.verification import PromiseCheck, Segment
    from lockstep.formats.second_reading import RereadRecord
    from lockstep.steps.proof.verify_log import Log
    from lockstep.steps.rerun.remade import Remade

ROWS_MATCH_TRANSFORM = "every row is what the transform makes of its record"


class RemadeContents:
    """A comparison of values: what the transform makes of a record now, and its rows."""

    def __init__(self, log: Log, remade: Remade) -> None:
        self._log, self._again = log, RowsAgain(log, remade)
        self._wrong = Wrong()
        self._erased: dict[int, dict[int, set[int]]] = {}
        self.seen = self._compared = 0

    def compare(
        self, stream: Any, segment: Segment, begin: int, until: int, _chunk: list[RereadRecord], count: int
    ) -> None:
        """Compares the `count` rows of a chunk's offsets with those that the transform makes."""
        if not self._again.left.may_compare(segment):
            return
        found, gone = Wrong(), self._gone(stream, segment, begin, until)
        self._again.loaded(stream, segment).changed(stream, (begin, until), gone, found)
        if self._again.left.is_settled([segment.batch_id], found, self._wrong):
            self._compared += count

    def drop(self) -> None:
        """Makes room for another target's rows."""
        self._again.drop()

    def check(self, table: str, there: int) -> PromiseCheck:
        """Returns the check, with the numbers of compared and of other rows, of the target's rows that are `there`."""
        left, batches = self._again.left.texts, self._again.left
        if there > self.seen:
            left.append(f"{there - self.seen} rows of records that the log no longer holds")
        told = f"{self._compared} of {there} rows compared with what the transform makes again"
        share = Share(self._compared, there, batch=batches.oldest, next_command=batches.next_command)
        return self._wrong.check(
            ROWS_MATCH_TRANSFORM, "contents", table, "log", told=told, left_out="; ".join(left), share=share
        )

    def _gone(self, stream: Any, segment: Segment, begin: int, until: int) -> set[int]:
        """Returns the offsets whose rows were erased, and those of records that are not decoded again."""
        if stream.stream_id not in self._erased:
            self._erased[stream.stream_id] = erased_offsets(
                self._log.cur, self._log.pipeline.first.table, stream.stream_id
            )
        erased = self._erased[stream.stream_id].get(segment.batch_id, set())
        return ledger.fatal_between(self._log.cur, stream.stream_id, begin, until) | erased
