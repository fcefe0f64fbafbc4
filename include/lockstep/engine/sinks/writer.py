"""Writes in one Spark task, over one connection and transaction: COPY, COMMIT, and only then the task's lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lockstep.core.records import COORDINATES, HIDDEN, NOT_STAGED, RAW_NAMES
from lockstep.core.staging import STAGING_SCHEMA
from lockstep.engine.sinks.session import copy_rows, staging_session
from lockstep.engine.sinks.spark_task import attempt_id, slot
from lockstep.engine.sinks.tally import SOURCE_LINE_SCHEMA, Tally, manifest_line
from lockstep.faults import reach

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lockstep.core.offsets import StreamRange
    from lockstep.core.proof.accounting import ManifestLine

BYTES_HELD = 32 * 2**20  # of records' bytes, until they are copied beside the transform


@dataclass(frozen=True, slots=True)
class Writer:
    """The destination of a task's rows. `dsn` is one for staging.

    `tombs` are the staging tables, each with its columns, of the targets that a tombstone deletes from. With `fan_out`,
    each row goes into these staging tables, of `targets` targets in all.
    """

    dsn: str = field(repr=False)
    table: str
    batch_id: int
    token: int
    from_offsets: Mapping[int, int]
    columns: tuple[str, ...] = ()
    tombs: tuple[tuple[str, tuple[str, ...]], ...] = ()
    beside: str | None = None  # the table for the bytes of what a transform is given, where they are to be kept
    fan_out: tuple[str, ...] | None = None
    targets: int = 1

    schema = SOURCE_LINE_SCHEMA
    may_cut = True

    def of_part(self, _part: Sequence[StreamRange]) -> Writer:
        """Returns itself, because staged rows are distinguished by their task and not by their range."""
        return self

    def direct(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Stages decoded records that this process reads itself."""
        return self.whole(batches)

    def reports(self, rows: Sequence[Mapping[str, Any]], _tasks: int, _where: str) -> tuple[ManifestLine, ...]:
        """Converts rows to manifest lines. A task that fails has none, and its job fails."""
        return tuple(manifest_line(dict(row), self.targets) for row in rows)

    def whole(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Stages decoded records and counts them as delivered and written, for a pipeline without a transform."""
        tally = Tally(attempt_id(), self.from_offsets)
        yield from self._write(map(unfiltered, _counted(batches, tally.delivered)), tally)

    def outlet(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Stages the transform's rows and counts them as written. The intake has counted the delivered records."""
        yield from self._write((as_staged(batch) for batch in batches), Tally(attempt_id(), self.from_offsets))

    def intake(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Counts the delivered records, keeps rejects and deletions to itself and yields the rest to the transform.

        Commits its lines and rows together at the end of the input: no end, no line. Its task number is never an
        outlet's, even if one task does both. The reader of a range and the stager of its rows win or lose apart.
        """
        task = -1 - attempt_id()
        tally, kept, raw = Tally(task, self.from_offsets), [], []
        for batch in map(unfiltered, _counted(batches, tally.delivered)):
            aside = pc.or_(pc.is_valid(batch.column("_reason")), batch.column("_deleted"))
            kept.append(batch.filter(aside))
            given = batch.filter(pc.invert(aside))
            if self.beside and given.num_rows:
                raw.append(given.select(RAW_NAMES))
                if sum(part.nbytes for part in raw) >= BYTES_HELD:
                    self._keep_beside(self.beside, raw)
                    raw = []
            yield accepted(given)
        if self.beside and raw:
            self._keep_beside(self.beside, raw)
        tally.untouched()
        for batch in kept:
            tally.staged(batch)
        with staging_session(self.dsn) as cur:
            for table, rows in self._aside(kept):
                stage_rows(cur, table, rows, task)
            copy_rows(cur, "lockstep", "source_manifest", self._source_lines(tally.lines()))

    def _aside(self, kept: list[pa.RecordBatch]) -> Iterator[tuple[str, list[pa.RecordBatch]]]:
        """Yields each table with its rows: rejects for the first table, a tombstone for each table it deletes from."""
        tombs = dict(self.tombs)
        for table, columns in ({self.table: self.columns} | tombs).items():
            rows = []
            for batch in kept:
                rejected = pc.is_valid(batch.column("_reason"))
                wanted = batch.filter(pc.invert(rejected)) if table in tombs else batch.slice(0, 0)
                parts = [wanted, batch.filter(rejected)] if table == self.table else [wanted]
                rows += [_stageable(part, columns) for part in parts if part.num_rows]
            if rows:
                yield table, rows

    def _keep_beside(self, table: str, raw: list[pa.RecordBatch]) -> None:
        """Stages bytes in a transaction of their own. Records never change, so any try's bytes are right."""
        with staging_session(self.dsn) as cur:
            stage_rows(cur, table, raw, attempt_id())

    def _source_lines(self, lines: pa.RecordBatch) -> pa.RecordBatch:
        columns = {name: lines.column(name) for name in SOURCE_LINE_SCHEMA.names if name != "rows"}
        for name in ("digest_sum", "digest_squares"):
            columns[name] = pc.cast(columns[name], pa.decimal128(38, 0))
        same = {"batch_id": self.batch_id, "token": self.token}
        columns |= {name: pa.array([value] * lines.num_rows, pa.int64()) for name, value in same.items()}
        columns["slot"] = pa.array([slot()] * lines.num_rows, pa.int32())
        return pa.RecordBatch.from_pydict(columns)

    def _write(self, batches: Iterator[pa.RecordBatch], tally: Tally) -> Iterator[pa.RecordBatch]:
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            if tally.has_lines:  # every record was filtered
                yield tally.lines()
            return
        reach("task.read_mid")
        with staging_session(self.dsn) as cur:
            self._stage(cur, _counted(chain([first], batches), tally.staged))
            reach("task.copy_end")
        reach("task.committed")
        yield tally.lines()

    def _stage(self, cur: Any, batches: Iterable[pa.RecordBatch], so_far: int = 0) -> None:
        """Copies rows into each staging table that takes them. Rejects go into the first target's alone."""
        if self.fan_out is None:
            stage_rows(cur, self.table, batches, attempt_id())
        else:
            _stage_each(cur, self.table, self.fan_out, batches, so_far)


def _stage_each(cur: Any, first: str, tables: Sequence[str], batches: Iterable[pa.RecordBatch], so_far: int) -> None:
    for batch in batches:
        for table, rows in portions(batch, first, tables):
            stage_rows(cur, table, [rows], attempt_id(), so_far)
        so_far += batch.num_rows


def portions(batch: pa.RecordBatch, first: str, tables: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yields each staging table with its rows. Each of these `tables` takes all, and the first target's takes rejects."""
    if batch.column("_reason").null_count == batch.num_rows:
        yield from ((table, batch) for table in tables)
        return
    rejected = pc.is_valid(batch.column("_reason"))
    good = batch.filter(pc.invert(rejected))
    yield first, batch if first in tables else batch.filter(rejected)
    if good.num_rows:
        yield from ((table, good) for table in tables if table != first)


def stage_rows(cur: Any, table: str, batches: Iterable[pa.RecordBatch], task: int, so_far: int = 0) -> None:
    """Copies rows of a task into a staging table that has `so_far` of them."""
    for batch in batches:
        copy_rows(cur, STAGING_SCHEMA, table, _with_task(batch, task), so_far)
        so_far += batch.num_rows
        reach("task.copy_mid")


def _counted(batches: Iterable[pa.RecordBatch], count: Any) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            count(batch)
        yield batch


def unfiltered(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the batch without records that the format filtered. They are delivered, not written or rejected."""
    if "_filtered" not in batch.schema.names:
        return batch
    return batch.filter(pc.invert(batch.column("_filtered")))


def _stageable(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Returns the batch without the columns that the transform drops, as the staging table has them."""
    return batch.select([n for n in batch.schema.names if n in columns or n.startswith("_")])


def _with_task(batch: pa.RecordBatch, task: int) -> pa.RecordBatch:
    kept = batch.select([name for name in batch.schema.names if name not in NOT_STAGED])
    return kept.append_column("_task", pa.repeat(pa.scalar(task, pa.int64()), batch.num_rows))


def accepted(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a transform's input: decoded columns, and the reserved ones that it may read."""
    return batch.select([name for name in batch.schema.names if name not in HIDDEN])


def as_staged(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a transform's output with the missing reserved columns filled in.

    Raises `ValueError` for a row that does not name its record.
    """
    for name in COORDINATES:
        if name in batch.schema.names and batch.column(name).null_count:
            raise ValueError(f"the transform gives rows whose {name} is null, and every row answers for its record")
    columns = {name: batch.column(name) for name in batch.schema.names if name not in {"_key", "_headers"}}
    rows = batch.num_rows
    columns.setdefault("_ordinal", pa.array([0] * rows, pa.int32()))
    columns["_deleted"] = pa.array([False] * rows, pa.bool_())
    columns["_reason"] = pa.nulls(rows, pa.string())
    return pa.RecordBatch.from_pydict(columns)
