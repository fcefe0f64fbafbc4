"""The range writer: one Spark task reads range after range and commits each when it is known to be at its end."""

from __future__ import annotations

import io
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from pyspark import TaskContext

from lockstep.core.accounting import Digest, ManifestLine
from lockstep.core.errors import BadData
from lockstep.core.staging import RangeOutcome
from lockstep.staging.aside import keep, kept
from lockstep.staging.tally import Tally
from lockstep.staging.writer import NOT_STAGED, accepted, as_staged, unfiltered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lockstep.core.staging import RangeSession, RangeTask

# The row that Spark puts behind a task's last range. Without it the end of the input may be that of a task that was killed or
# failed on its way: Spark then closes the stream to Python as if all had been said.
END = -1
OUTCOMES = pa.schema([("slot", pa.int32()), ("stream_id", pa.int32()), ("what", pa.string()), ("reason", pa.string())])
SPARK_OUTCOMES = "slot int, stream_id int, what string, reason string"
NO_HEADER = csv.WriteOptions(include_header=False)


@dataclass(frozen=True, slots=True)
class RangeWriter:
    """One task's work: its number `slot` in a `run` that no other is named as, where its ranges begin, what columns stay."""

    task: RangeTask
    run: str
    slot: int
    from_offsets: Mapping[int, int]
    columns: tuple[str, ...]

    def whole(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Commits decoded records: the way of a pipeline without a transform. A range ends where the next one begins."""
        with self.task.session() as session:
            under_way: _Range | None = None
            seen: set[int] = set()
            for stream_id, part in _in_order(batches):
                if under_way and stream_id != under_way.stream_id:
                    yield self._said(under_way.commit())
                    under_way = None
                if stream_id == END:
                    yield self._said(RangeOutcome(END, "end"))
                    return
                if under_way is None:
                    if stream_id in seen:
                        raise BadData(f"stream {stream_id}: its records did not come one after another")
                    seen.add(stream_id)
                    under_way = _Range(session, stream_id, Tally(_task(), self.from_offsets))
                under_way.take(part)

    def intake(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Counts what is delivered of one range, keeps rejects and deletions aside and yields the rest to the transform.

        What it keeps lies in a file of this task, for its outlet.
        """
        tally, aside = Tally(_task(), self.from_offsets), []
        for batch in batches:
            if not batch.num_rows:
                continue
            tally.delivered(batch)
            batch = unfiltered(batch)  # noqa: PLW2901 - what the format let go was delivered, and goes no further
            kept = pc.or_(pc.is_valid(batch.column("_reason")), batch.column("_deleted"))
            aside.append(self._stageable(batch.filter(kept)))
            yield accepted(batch.filter(pc.invert(kept)))
        keep(self._name, tally.lines(), [batch for batch in aside if batch.num_rows])

    def outlet(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Commits what a transform yields, with what the intake kept aside, when all of the task's input is through."""
        with self.task.session() as session:
            under_way: dict[int, _Range] = {}
            ended = False
            for stream_id, part in _in_order(batches):
                if ended := stream_id == END:
                    break
                if stream_id not in under_way:
                    under_way[stream_id] = _Range(session, stream_id, Tally(_task(), self.from_offsets))
                under_way[stream_id].take(as_staged(part))
            if not ended:
                return
            intakes = kept(self._name)
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
                range_ = under_way.get(stream_id) or _Range(session, stream_id, Tally(_task(), self.from_offsets))
                yield self._said(range_.commit(*facts[stream_id]))
            yield self._said(RangeOutcome(END, "end"))

    @property
    def _name(self) -> str:
        return f"{self.run}-{_task()}"

    def _said(self, outcome: RangeOutcome) -> pa.RecordBatch:
        row = {"slot": self.slot, "stream_id": outcome.stream_id, "what": outcome.what, "reason": outcome.reason}
        return pa.RecordBatch.from_pylist([row], schema=OUTCOMES)

    def _stageable(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Without the columns that the transform takes away."""
        return batch.select([n for n in batch.schema.names if n in self.columns or n.startswith("_")])


class _Range:
    """One range on its way; what was committed by an earlier try is read past."""

    def __init__(self, session: RangeSession, stream_id: int, tally: Tally) -> None:
        self.stream_id = stream_id
        self._session = session
        self._tally = tally
        self._found = session.is_committed(stream_id)

    def take(self, batch: pa.RecordBatch) -> None:
        """These rows are the range's; those that still have their size are records as they were delivered."""
        if self._found or not batch.num_rows:
            return
        if "_bytes" in batch.schema.names:
            self._tally.delivered(batch)
        rest = unfiltered(batch)
        self._tally.staged(rest)
        plain = rest.select([name for name in rest.schema.names if name not in NOT_STAGED])
        self._session.copy(self.stream_id, plain.schema.names, _as_csv(plain))

    def commit(self, delivered: pa.RecordBatch | None = None, aside: Iterable[pa.RecordBatch] = ()) -> RangeOutcome:
        """The range is at its end; `delivered` is what the intake of a transform has counted, `aside` what it kept."""
        if self._found:
            return RangeOutcome(self.stream_id, "found")
        for batch in aside:
            self.take(batch.select([name for name in batch.schema.names if name not in NOT_STAGED]))
        return self._session.commit(_line(self._tally.lines(), delivered))


def _line(staged: pa.RecordBatch, delivered: pa.RecordBatch | None) -> ManifestLine:
    """What one range's tallies have counted, in one process or in two."""
    told: dict[str, Any] = (staged if delivered is None else delivered).to_pylist()[0]
    if delivered is not None:
        rows = staged.to_pylist() or [{"rows": 0, "written": 0, "rejected": 0}]
        told |= {name: rows[0][name] for name in ("rows", "written", "rejected")}
    digest = Digest(told["delivered"], int(told.pop("digest_sum")), int(told.pop("digest_squares")))
    return ManifestLine(**told, digest=digest)


def _in_order(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows as they come, cut where the stream changes: one Arrow batch may hold two ranges."""
    for batch in batches:
        if not batch.num_rows:
            continue
        if batch.column("_stream").null_count:
            raise BadData("the transform gives rows whose _stream is null, and every row answers for its record")
        streams = batch.column("_stream").to_numpy(zero_copy_only=False)
        cuts = [0, *(np.flatnonzero(np.diff(streams)) + 1).tolist(), batch.num_rows]
        for begin, end in pairwise(cuts):
            yield int(streams[begin]), batch.slice(begin, end - begin)


def _as_csv(batch: pa.RecordBatch) -> io.BytesIO:
    """As Postgres reads it under UTC: times without their zone (writing that is twenty times slower), bytes in hex."""
    columns = []
    for column in batch.columns:
        if pa.types.is_timestamp(column.type) and column.type.tz:
            columns.append(column.cast(pa.timestamp(column.type.unit)))
        elif pa.types.is_binary(column.type) and column.null_count < len(column):
            columns.append(pa.array([None if b is None else "\\x" + b.hex() for b in column.to_pylist()], pa.string()))
        elif pa.types.is_binary(column.type):
            columns.append(pa.nulls(len(column), pa.string()))
        else:
            columns.append(column)
    written = io.BytesIO()
    csv.write_csv(pa.RecordBatch.from_arrays(columns, names=batch.schema.names), written, NO_HEADER)
    written.seek(0)
    return written


def _task() -> int:
    context = TaskContext.get()
    return context.taskAttemptId() if context else 0
