"""Hands out the rows of batches that were run again, and keeps the batches that a check could not compare."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lockstep.targets.proof.remade import RemadeRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lockstep.core.pipeline.targets import Upsert
    from lockstep.core.proof.verification import Segment, Share, Wrong
    from lockstep.steps.proof.verify_log import Log
    from lockstep.steps.rerun.remade import Remade


class RowsAgain:
    """The rows of one target, segment by segment, as its transform makes them again."""

    def __init__(self, log: Log, remade: Remade) -> None:
        self.left = LeftOut(remade)
        self._log, self._remade = log, remade
        self._rows = RemadeRows(log.cur, log.pipeline.first, log.columns)
        self._loaded: tuple[int, int] | None = None

    def loaded(self, stream: Any, segment: Segment) -> RemadeRows:
        """Returns the rows of a segment, in the ledger's database."""
        if self._loaded != (segment.batch_id, stream.stream_id):
            self._rows.load(self._remade.rows(segment.batch_id, self._log.place, stream.stream_id))
            self._loaded = (segment.batch_id, stream.stream_id)
        return self._rows

    def rows(self, stream: Any, segment: Segment) -> list[Mapping[str, Any]]:
        """Returns the segment's rows by column."""
        return self.loaded(stream, segment).rows(segment)

    def into_decoded(self, target: Upsert, stream: Any, segment: Segment) -> int:
        """Puts the segment's rows where decoded records are compared. Returns how many there are."""
        return self.loaded(stream, segment).into_decoded(target, segment)

    def forget_older(self, starts: Mapping[int, int]) -> None:
        """Forgets the newest records of keys that lie below these starts of their streams."""
        self._rows.forget_older(starts)

    def drop(self) -> None:
        """Makes room for another target's rows."""
        self._rows.drop()


class LeftOut:
    """The batches that a check could not compare, and why."""

    def __init__(self, remade: Remade) -> None:
        self._remade = remade
        self._failed: dict[int, str] = {}
        self._unrepeatable: dict[int, str] = {}

    def may_compare(self, segment: Segment) -> bool:
        """Returns True if the segment's batch was run again. Keeps the reason if not."""
        batch = segment.batch_id
        if self._remade.has(batch):
            return True
        if batch not in self._remade.others:
            self._failed[batch] = self._remade.failed.get(batch, f"batch {batch}: it was not run again")
        return False

    def are_settled(self, segment: Segment, pairs: Iterable[tuple[Wrong, Wrong]]) -> bool:
        """Adds what was found wrong in a segment to each check. Returns False if its batch is not made the same again."""
        settled = [self.is_settled([segment.batch_id], found, wrong) for found, wrong in pairs]
        return all(settled)

    def is_settled(self, batches: Sequence[int], found: Wrong, wrong: Wrong) -> bool:
        """Adds what was found wrong in these batches. Returns False if another run of one of them makes other rows, too."""
        if not found.count:
            return True
        found.note("; ".join(map(self._remade.made_by, batches)))
        for batch in batches:
            if why := self._remade.why_unrepeatable(batch):
                self._unrepeatable[batch] = f"{why}; {found}"
                return False
        found.batches = tuple(batches)
        wrong.join(found)
        return True

    @property
    def is_of_log(self) -> bool:
        """Returns True if every batch was run again of which Kafka holds all records."""
        return not self._remade.others and self._remade.lost.issuperset(self._failed)

    @property
    def oldest(self) -> int | None:
        """Returns the oldest batch that another definition made."""
        return self._remade.oldest_other

    @property
    def next_command(self) -> str | None:
        """Returns the command after which more can be compared, if it is neither a replay nor an archive."""
        if self._unrepeatable and not self._failed:
            return f"lockstep check {self._remade.name}"
        return self._remade.next_command if self._failed else None

    def lowered(self, share: Share, *, to: int) -> Share:
        """Returns the share with so many compared, and the command after which more can be."""
        batch = self.oldest if share.batch is None else share.batch
        return replace(share, compared=to, batch=batch, next_command=self.next_command)

    @property
    def texts(self) -> list[str]:
        """Returns one text for each reason, with its first batch."""
        texts = self._remade.others_text()
        if self._failed:
            texts.append(f"{len(self._failed)} batches that were not run again: {self._failed[min(self._failed)]}")
        if self._unrepeatable:
            first = min(self._unrepeatable)
            texts.append(
                f"{len(self._unrepeatable)} batches that no run makes the same: batch {first}: {self._unrepeatable[first]}"
            )
        return texts
