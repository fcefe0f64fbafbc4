"""Writes ranges in one Spark task: reads one after another and commits each at its certain end."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lockstep.core.engine import RangeOutcome
from lockstep.core.errors import BadData
from lockstep.core.proof.accounting import nothing
from lockstep.core.records import NOT_STAGED
from lockstep.core.states import RangeEnd
from lockstep.engine.sinks.aside import keep_intake, kept_intakes, sweep
from lockstep.engine.sinks.range_rows import RangeRows
from lockstep.engine.sinks.spark_task import attempt_id, slot
from lockstep.engine.sinks.stretches import END, rows_by_stream
from lockstep.engine.sinks.tally import Tally, manifest_line
from lockstep.engine.sinks.writer import accepted, as_staged, unfiltered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lockstep.core.engine import RangeSession, RangeTask
    from lockstep.core.offsets import StreamRange
    from lockstep.core.proof.accounting import ManifestLine

# Behind a task's last range comes a row of `END`. Without it the end of the input may be that of a task that was killed or
# failed on its way: Spark then closes the stream to Python as if the input were complete.
OUTCOMES = pa.schema([("slot", pa.int32()), ("stream_id", pa.int32()), ("what", pa.string()), ("reason", pa.string())])
END_ROW = pa.RecordBatch.from_pydict({"_stream": pa.array([END], pa.int32())})


@dataclass(frozen=True, slots=True)
class RangeWriter:
    """The work of a task: its part of a uniquely named `run`, the ranges' begins, and the columns to stage."""

    task: RangeTask
    run: str
    from_offsets: Mapping[int, int]
    columns: tuple[str, ...]
    pieces: tuple[StreamRange, ...] = ()

    schema = OUTCOMES

    @property
    def may_cut(self) -> bool:
        """Returns True if several tasks may take pieces of one range."""
        return self.task.may_cut

    def of_part(self, part: tuple[StreamRange, ...]) -> RangeWriter:
        """Returns the writer of a task with this part of the ranges. It also commits pieces that deliver nothing."""
        return replace(self, task=self.task.of_part(part), pieces=part) if self.may_cut else self

    def direct(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Commits decoded records that this process reads itself. The last range ends with them."""
        return self.whole(chain(batches, [END_ROW]))

    def reports(self, rows: Sequence[Mapping[str, Any]], tasks: int, where: str) -> tuple[RangeOutcome, ...]:
        """Converts rows to outcomes. Raises `BadData` unless each task came to its end."""
        ended = {row["slot"] for row in rows if row["stream_id"] == END}
        if len(ended) != tasks:
            raise BadData(f"{where}: only {len(ended)} of {tasks} tasks came to the end of their ranges")
        done = [row for row in rows if row["stream_id"] != END]
        return tuple(RangeOutcome(row["stream_id"], RangeEnd(row["what"]), row["reason"]) for row in done)

    def whole(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Commits decoded records, for a pipeline without a transform. A range ends where the next one begins."""
        with self.task.session() as session, ExitStack() as at_hand:
            under_way: _Range | None = None
            seen: set[int] = set()
            for stream_id, part in rows_by_stream(_reading_on(session, batches)):
                if under_way and stream_id != under_way.stream_id:
                    yield said(under_way.commit())
                    under_way = None
                if stream_id == END:
                    yield from (said(session.commit(nothing(item))) for item in self._silent(seen))
                    yield said(RangeOutcome(END, RangeEnd.END))
                    continue  # to the end of the input, for Spark ends a worker that leaves some of it
                if under_way is None:
                    if stream_id in seen:
                        raise BadData(f"stream {stream_id}: its records did not come one after another")
                    seen.add(stream_id)
                    at_hand.close()  # the range before is committed
                    under_way = at_hand.enter_context(closing(self._begun(session, stream_id)))
                under_way.take(part)

    def intake(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Counts one range's delivered records, keeps rejects and deletions aside and yields the rest to the transform.

        The kept rows are in a file of this task, for its outlet.
        """
        sweep()
        tally, aside = Tally(attempt_id(), self.from_offsets), []
        for batch in batches:
            if not batch.num_rows:
                continue
            tally.delivered(batch)
            batch = unfiltered(batch)  # noqa: PLW2901 - what the format let go was delivered, and goes no further
            kept = pc.or_(pc.is_valid(batch.column("_reason")), batch.column("_deleted"))
            aside.append(self._stageable(batch.filter(kept)))
            yield accepted(batch.filter(pc.invert(kept)))
        keep_intake(self._name, tally.lines(), [batch for batch in aside if batch.num_rows])

    def outlet(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Commits the transform's rows and the rows kept by the intake, after all of the task's input."""
        with self.task.session() as session, ExitStack() as at_hand:
            under_way: dict[int, _Range] = {}
            ended = False
            for stream_id, part in rows_by_stream(_reading_on(session, batches)):
                if ended := stream_id == END:
                    continue
                if stream_id not in under_way:
                    under_way[stream_id] = at_hand.enter_context(closing(self._begun(session, stream_id)))
                under_way[stream_id].take(as_staged(part))
            if not ended:
                return
            intakes = kept_intakes(self._name)
            facts = {lines.column("stream_id")[0].as_py(): (lines, aside) for lines, aside in intakes if lines.num_rows}
            if len(intakes) != len(self.from_offsets):
                raise BadData(
                    f"{len(intakes)} of {len(self.from_offsets)} ranges were read by the task that is to commit them: the "
                    "transform must hand each record's rows on as they come, without cache, limit or broadcast of them"
                )
            if strangers := under_way.keys() - facts.keys():
                raise BadData(
                    f"streams {sorted(strangers)}: the transform gives rows of records that were not read here"
                )
            for stream_id in sorted(facts):
                range_ = under_way.get(stream_id) or self._begun(session, stream_id)
                yield said(range_.commit(*facts[stream_id]))
            yield said(RangeOutcome(END, RangeEnd.END))

    def _silent(self, seen: set[int]) -> list[StreamRange]:
        return [item for item in self.pieces if item.stream_id not in seen]

    def _begun(self, session: RangeSession, stream_id: int) -> _Range:
        return _Range(session, stream_id, Tally(attempt_id(), self.from_offsets), self.task.attempt.batch_id)

    @property
    def _name(self) -> str:
        return f"{self.run}-{attempt_id()}"

    def _stageable(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the batch without the columns that the transform drops."""
        return batch.select([n for n in batch.schema.names if n in self.columns or n.startswith("_")])


def said(outcome: RangeOutcome) -> pa.RecordBatch:
    """Returns the outcome of a range as a row of `OUTCOMES`."""
    row = {"slot": slot(), "stream_id": outcome.stream_id, "what": outcome.what, "reason": outcome.reason}
    return pa.RecordBatch.from_pylist([row], schema=OUTCOMES)


def _reading_on(session: RangeSession, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        session.reads_on()
        yield batch


class _Range:
    """One range in progress. Skips the rows of a range that an earlier try has committed."""

    def __init__(self, session: RangeSession, stream_id: int, tally: Tally, batch_id: int) -> None:
        self.stream_id = stream_id
        self._tally = tally
        self._rows = None if session.is_committed(stream_id) else RangeRows(session, stream_id, batch_id)

    def take(self, batch: pa.RecordBatch) -> None:
        """Adds rows to the range. Rows that still have their size are records as they were delivered."""
        if self._rows is None or not batch.num_rows:
            return
        if "_bytes" in batch.schema.names:
            self._tally.delivered(batch)
        rest = unfiltered(batch)
        self._tally.staged(rest)
        self._rows.take(rest.select([name for name in rest.schema.names if name not in NOT_STAGED]))

    def commit(self, delivered: pa.RecordBatch | None = None, aside: Iterable[pa.RecordBatch] = ()) -> RangeOutcome:
        """Commits the range at its end. `delivered` is the intake's count for a transform, `aside` the rows it kept."""
        if self._rows is None:
            return RangeOutcome(self.stream_id, RangeEnd.FOUND)
        for batch in aside:
            self.take(batch.select([name for name in batch.schema.names if name not in NOT_STAGED]))
        return self._rows.commit(_line(self._tally.lines(), delivered))

    def close(self) -> None:
        """Deletes rows that were not committed."""
        if self._rows is not None:
            self._rows.close()


def _line(staged: pa.RecordBatch, delivered: pa.RecordBatch | None) -> ManifestLine:
    """Combines the tallies of one range, from one process or two, to a manifest line."""
    told: dict[str, Any] = (staged if delivered is None else delivered).to_pylist()[0]
    if delivered is not None:
        rows = staged.to_pylist() or [{"rows": 0, "written": 0, "rejected": 0}]
        told |= {name: rows[0][name] for name in ("rows", "written", "rejected")}
    return manifest_line(told)
