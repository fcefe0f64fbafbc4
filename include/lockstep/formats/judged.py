"""Decodes raw records in one process of Python, with the rows, rejects and reasons that Spark and Python give together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockstep.core.capture.debezium import Debezium
from lockstep.core.engine import LeftToSpark
from lockstep.core.formats.registered import Protobuf
from lockstep.core.isolation import hidden_reason
from lockstep.core.pipeline.formats import marked_columns
from lockstep.core.pipeline.targets import needed_columns
from lockstep.core.records import BYTES_COLUMNS
from lockstep.deadline import Deadline
from lockstep.formats.registered import require_registry
from lockstep.formats.rows import RecordOutcome, require_accepted, shortened_reason
from lockstep.formats.values import arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.limits import RecordLimits
    from lockstep.core.registry import Registry

    Judge = Callable[[bytes | None, bytes | None, str | None], RecordOutcome]


class ByColumns(Protocol):
    """A decoder by columns of the plain records. The judge gets the others."""

    def __call__(self, values: pa.Array) -> tuple[np.ndarray, pa.RecordBatch]:
        """Returns the places of the decoded values, in order, and their columns."""

    def pass_over(self, judge: Any, keys: pa.Array) -> None:
        """Tells the judge of the keys of records that it does not see."""


@dataclass(frozen=True, slots=True)
class JudgedRecords:
    """The decoder of a task's records. Executors get it by value. With `keeps_bytes`, good records keep their bytes."""

    pipeline: Pipeline
    registry: Registry | None
    keeps_bytes: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields raw records as decoded ones. Raises `LeftToSpark` for a record that Spark alone can judge."""
        judging, deadline = self._judging(), Deadline(self.pipeline.record_limits.seconds)
        for batch in batches:
            places, columns = np.array([], np.int64), None
            with deadline:
                if judging.by_columns:
                    places, columns = judging.by_columns(batch.column("_value"))
                is_left = np.ones(batch.num_rows, np.bool_)
                is_left[places] = False
                rest = np.flatnonzero(is_left)
                outcomes = judging.outcomes(batch, rest, deadline)
            if any(outcome.refusal for outcome in outcomes):
                some, named = batch.take(pa.array(rest)), not isinstance(self.pipeline.topic, str)
                require_accepted(some, outcomes, names_topic=named)
            yield self._joined(batch, places, columns, rest, outcomes)

    def _judging(self) -> _Judging:
        pipeline, format_ = self.pipeline, self.pipeline.format
        names, most = {column.name for column in pipeline.columns}, pipeline.record_limits
        needed = tuple(name for name in needed_columns(pipeline.targets, pipeline.event_time) if name in names)
        match format_:
            case Debezium():
                from lockstep.formats.debezium.documents import change_decoder  # noqa: PLC0415 - each is slow to import
                from lockstep.formats.debezium.templates import Templates  # noqa: PLC0415 - as above

                templates = None
                if format_.wire is None:
                    templates = Templates(change_decoder(pipeline, format_, None), format_, frozenset(needed))
                return _Judging(change_decoder(pipeline, format_, self.registry), needed, most, templates)
            case Protobuf():
                from lockstep.formats.protobuf.columns import ProtobufColumns  # noqa: PLC0415 - as above
                from lockstep.formats.protobuf.decoder import protobuf_decoder  # noqa: PLC0415 - as above

                registry = require_registry(pipeline, format_, self.registry)
                by_columns = ProtobufColumns(pipeline, format_, registry, frozenset(needed))
                keys_may_be_text = format_.key is not None
                return _Judging(
                    protobuf_decoder(pipeline, format_, registry), needed, most, by_columns, keys_may_be_text
                )
        raise TypeError(f"{pipeline.name}: {type(format_).__name__} is not judged by Python")

    def _joined(
        self,
        batch: pa.RecordBatch,
        places: np.ndarray,
        columns: pa.RecordBatch | None,
        rest: np.ndarray,
        outcomes: Sequence[RecordOutcome],
    ) -> pa.RecordBatch:
        """Returns all records in their order, as Spark would have decoded them."""
        many, names = len(places), [column.name for column in marked_columns(self.pipeline.format)]
        found = {
            "_deleted": pa.array([outcome.deleted for outcome in outcomes], pa.bool_()),
            "_reason": pa.array([outcome.reason for outcome in outcomes], pa.string()),
            "_filtered": pa.array([outcome.filtered for outcome in outcomes], pa.bool_()),
        }
        for column in marked_columns(self.pipeline.format):
            found[column.name] = pa.array([o.values.get(column.name) for o in outcomes], arrow_type(column))
        if columns is not None and many:
            no, none = pa.repeat(pa.scalar(False), many), pa.nulls(many, pa.string())  # noqa: FBT003 - a value
            taken = {"_deleted": no, "_reason": none, "_filtered": no} | {name: columns.column(name) for name in names}
            if not len(rest):
                found = taken
            else:
                both = {name: pa.concat_arrays([taken[name], its]) for name, its in found.items()}
                order = pa.array(np.argsort(np.concatenate([places, rest])))
                found = {name: its.take(order) for name, its in both.items()}
        arrays = {name: batch.column(name) for name in batch.schema.names if name not in {"_topic", "_partition"}}
        if not self.keeps_bytes:
            arrays |= {name: _of_rejects(arrays[name], found["_reason"]) for name in BYTES_COLUMNS}
        return pa.RecordBatch.from_pydict(arrays | found)


def _of_rejects(array: pa.Array, reasons: pa.Array) -> pa.Array:
    """Returns the bytes of records with a reason alone."""
    if reasons.null_count == len(reasons):
        return pa.nulls(len(array), array.type)
    return pc.if_else(pc.is_valid(reasons), array, None)


@dataclass(frozen=True, slots=True)
class _Judging:
    """The judge of one task's records, and the columns that every row needs.

    With `keys_may_be_text`, a deletion without values has a key that Spark alone reads.
    """

    judge: Judge
    needed: tuple[str, ...]
    limits: RecordLimits
    by_columns: ByColumns | None
    keys_may_be_text: bool = False

    def outcomes(self, batch: pa.RecordBatch, rest: np.ndarray, deadline: Deadline) -> list[RecordOutcome]:
        """Judges the records at these places, in order. Each is progress."""
        if not len(rest):
            self._pass_over(batch, 0, batch.num_rows)
            return []
        some = batch.take(pa.array(rest)) if len(rest) < batch.num_rows else batch
        raw = [some.column(name).to_pylist() for name in ("_key", "_value", "_headers", "_bytes")]
        outcomes, behind = [], 0
        for place, (*record, size) in deadline.each(zip(rest.tolist(), zip(*raw, strict=True), strict=True)):
            if place > behind:
                self._pass_over(batch, behind, place)
            behind = place + 1
            outcomes.append(self._outcome(record, size))
        self._pass_over(batch, behind, batch.num_rows)
        return outcomes

    def _pass_over(self, batch: pa.RecordBatch, begin: int, end: int) -> None:
        """Tells the judge of records between its own that were decoded by columns."""
        if self.by_columns and begin < end:
            self.by_columns.pass_over(self.judge, batch.column("_key").slice(begin, end - begin))

    def _outcome(self, record: Sequence[Any], size: int) -> RecordOutcome:
        if not 0 <= size <= self.limits.bytes:
            return RecordOutcome(reason=hidden_reason(size) if size < 0 else self.limits.excess(size))
        outcome = self.judge(*record)
        if outcome.reason is not None:
            return RecordOutcome(reason=shortened_reason(outcome.reason), deleted=outcome.deleted)
        if outcome.deleted:
            if self.keys_may_be_text and not outcome.values:
                raise LeftToSpark  # Spark reads the text of its key
            return outcome
        if not outcome.filtered and outcome.refusal is None:
            for name in self.needed:
                if outcome.values.get(name) is None:
                    return RecordOutcome(reason=f"column {name}: null, and the target's key or order needs it")
        return outcome
