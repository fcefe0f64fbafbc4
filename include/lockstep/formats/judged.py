"""Decodes raw records, plain ones by columns and the others one by one, to rows, deletions and rejects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockstep.core.capture.debezium import Debezium
from lockstep.core.formats.registered import Avro, Protobuf, require_registry
from lockstep.core.isolation import hidden_reason
from lockstep.core.pipeline.formats import Json, marked_columns
from lockstep.core.pipeline.targets import needed_columns
from lockstep.core.records import BYTES_COLUMNS
from lockstep.deadline import Deadline
from lockstep.formats.judges import judge_of
from lockstep.formats.rows import RecordOutcome, refused, shortened_reason
from lockstep.formats.values import arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.limits import RecordLimits
    from lockstep.core.registry import Registry
    from lockstep.formats.envelope import EnvelopeColumns
    from lockstep.formats.judges import Judge

    PassOver = Callable[[pa.Array], None]
    Each = Callable[[Iterable[Any]], Iterator[Any]]

UNREPEATED = frozenset({"_topic", "_partition"})  # where a record is, which no decoded one repeats


class ByColumns(Protocol):
    """A decoder by columns of the plain records. The judge gets the others."""

    def __call__(self, values: pa.Array) -> tuple[np.ndarray, pa.RecordBatch]:
        """Returns the places of the decoded values, in order, and their columns."""


class JudgedBatch(NamedTuple):
    """The marks and columns of a batch's records, and by their places why some must not be committed over."""

    columns: dict[str, pa.Array]
    refusals: dict[int, str]


@dataclass(frozen=True, slots=True)
class RecordDecoder:
    """The decoder of a task's records. Executors get it by value. With `keeps_bytes`, good records keep their bytes.

    `source` is that of the pipeline's own decoder.
    """

    pipeline: Pipeline
    source: str | None
    registry: Registry | None
    keeps_bytes: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields raw records as decoded ones, in their order. Raises `BadData` for one that must not be passed over."""
        deadline = Deadline(self.pipeline.record_limits.seconds)
        decode = self.begun(deadline.each)
        for batch in batches:
            with deadline:
                decoded = decode(batch)
            yield decoded

    def begun(self, each: Each = iter) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """Returns a function that decodes one batch after another. `each` hears of the judged records as progress."""
        decode = self.judged(judge_of(self.pipeline, self.source, self.registry), each)

        def decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
            found, refusals = decode(batch)
            if refusals:
                raise refused(
                    batch, *next(iter(refusals.items())), names_topic=not isinstance(self.pipeline.topic, str)
                )
            arrays = {name: batch.column(name) for name in batch.schema.names if name not in UNREPEATED}
            if not self.keeps_bytes:
                arrays |= {name: _of_rejects(arrays[name], found["_reason"]) for name in BYTES_COLUMNS}
            return pa.RecordBatch.from_pydict(arrays | found)

        return decoded

    def judged(self, judge: Judge, each: Each = iter) -> Callable[[pa.RecordBatch], JudgedBatch]:
        """Returns a function from one batch after another to marks and columns. This judge takes the records one by one."""
        judging = self._judging(judge, each)
        envelope = self._envelope()

        def of_batch(batch: pa.RecordBatch) -> JudgedBatch:
            places, columns = np.array([], np.int64), None
            if judging.by_columns and batch.num_rows:
                places, columns = judging.by_columns(_decodable(batch))
            is_left = np.ones(batch.num_rows, np.bool_)
            is_left[places] = False
            rest = np.flatnonzero(is_left)
            outcomes = judging.outcomes(batch, rest)
            refusals = {
                place: outcome.refusal
                for place, outcome in zip(rest.tolist(), outcomes, strict=True)
                if outcome.refusal
            }
            found = self._joined(places, columns, rest, outcomes)
            return JudgedBatch(found if envelope is None else envelope.added(batch, found), refusals)

        return of_batch

    def _judging(self, judge: Judge, each: Each) -> _Judging:
        pipeline, format_ = self.pipeline, self.pipeline.format
        names = {column.name for column in format_.columns}
        needed = tuple(name for name in needed_columns(pipeline.targets, pipeline.event_time) if name in names)
        by_columns, pass_over = self._by_columns(judge, frozenset(needed))
        return _Judging(judge, needed, pipeline.record_limits, by_columns, pass_over, each)

    def _by_columns(self, judge: Any, needed: frozenset[str]) -> tuple[ByColumns | None, PassOver | None]:
        """Returns the decoder by columns, if the definition allows one, and how the judge hears of its keys."""
        pipeline, format_ = self.pipeline, self.pipeline.format
        match format_:
            case Json():
                from lockstep.formats.json.columns import columnar  # noqa: PLC0415 - each is slow to import

                columns = columnar(pipeline)
                if not format_.registry or columns is None:
                    return columns, None
                from lockstep.formats.json.heads import HeadedColumns  # noqa: PLC0415 - as above

                registry = require_registry(pipeline, format_, self.registry)
                return HeadedColumns(pipeline, format_, registry, columns), None
            case Avro(rest=None):
                from lockstep.formats.avro.columns import AvroColumns  # noqa: PLC0415 - as above

                registry = require_registry(pipeline, format_, self.registry)
                return AvroColumns(pipeline, format_, registry, needed), None
            case Protobuf():
                from lockstep.formats.protobuf.columns import ProtobufColumns  # noqa: PLC0415 - as above

                registry = require_registry(pipeline, format_, self.registry)
                return ProtobufColumns(pipeline, format_, registry, needed), None
            case Debezium() if format_.wire is None:
                from lockstep.formats.debezium.documents import change_decoder  # noqa: PLC0415 - as above
                from lockstep.formats.debezium.templates import Templates  # noqa: PLC0415 - as above

                templates = Templates(change_decoder(pipeline, format_, None), format_, needed)
                return templates, lambda keys: templates.pass_over(judge, keys)
        return None, None

    def _envelope(self) -> EnvelopeColumns | None:
        pipeline = self.pipeline
        if pipeline.envelope is None:
            return None
        from lockstep.formats.envelope import EnvelopeColumns  # noqa: PLC0415 - few definitions have one

        return EnvelopeColumns(pipeline.envelope, frozenset(needed_columns(pipeline.targets, pipeline.event_time)))

    def _joined(
        self,
        places: np.ndarray,
        columns: pa.RecordBatch | None,
        rest: np.ndarray,
        outcomes: Sequence[RecordOutcome],
    ) -> dict[str, pa.Array]:
        """Returns the marks and columns of all records, in their order."""
        many, names = len(places), [column.name for column in marked_columns(self.pipeline.format)]
        found = {
            "_deleted": pa.array([outcome.deleted for outcome in outcomes], pa.bool_()),
            "_reason": pa.array([outcome.reason for outcome in outcomes], pa.string()),
            "_filtered": pa.array([outcome.filtered for outcome in outcomes], pa.bool_()),
        }
        for column in marked_columns(self.pipeline.format):
            found[column.name] = pa.array([o.values.get(column.name) for o in outcomes], arrow_type(column))
        if columns is None or not many:
            return found
        no, none = pa.repeat(pa.scalar(False), many), pa.nulls(many, pa.string())  # noqa: FBT003 - a value
        taken = {"_deleted": no, "_reason": none, "_filtered": no} | {name: columns.column(name) for name in names}
        if not len(rest):
            return taken
        both = {name: pa.concat_arrays([taken[name], its]) for name, its in found.items()}
        order = pa.array(np.argsort(np.concatenate([places, rest])))
        return {name: its.take(order) for name, its in both.items()}


def _decodable(batch: pa.RecordBatch) -> pa.Array:
    """Returns the values, without those of records that are rejects before they are decoded."""
    values, sizes = batch.column("_value"), batch.column("_bytes")
    least = pc.min(sizes).as_py()
    return values if least is None or least >= 0 else pc.if_else(pc.less(sizes, 0), None, values)


def _of_rejects(array: pa.Array, reasons: pa.Array) -> pa.Array:
    """Returns the bytes of records with a reason alone."""
    if reasons.null_count == len(reasons):
        return pa.nulls(len(array), array.type)
    return pc.if_else(pc.is_valid(reasons), array, None)


@dataclass(frozen=True, slots=True)
class _Judging:
    """The judge of one task's records, and the columns that every row needs."""

    judge: Judge
    needed: tuple[str, ...]
    limits: RecordLimits
    by_columns: ByColumns | None
    pass_over: PassOver | None
    each: Each

    def outcomes(self, batch: pa.RecordBatch, rest: np.ndarray) -> list[RecordOutcome]:
        """Judges the records at these places, in order. The judge hears of the keys of those between them."""
        if not len(rest):
            self._pass_over(batch, 0, batch.num_rows)
            return []
        some = batch.take(pa.array(rest)) if len(rest) < batch.num_rows else batch
        raw = [some.column(name).to_pylist() for name in ("_key", "_value", "_headers", "_bytes")]
        outcomes, behind = [], 0
        for place, (*record, size) in self.each(zip(rest.tolist(), zip(*raw, strict=True), strict=True)):
            self._pass_over(batch, behind, place)
            behind = place + 1
            outcomes.append(self._outcome(record, size))
        self._pass_over(batch, behind, batch.num_rows)
        return outcomes

    def _pass_over(self, batch: pa.RecordBatch, begin: int, end: int) -> None:
        if self.pass_over and begin < end:
            self.pass_over(batch.column("_key").slice(begin, end - begin))

    def _outcome(self, record: Sequence[Any], size: int | None) -> RecordOutcome:
        if size is not None and not 0 <= size <= self.limits.bytes:
            return RecordOutcome(reason=hidden_reason(size) if size < 0 else self.limits.excess(size))
        outcome = self.judge(*record)
        if outcome.reason is not None:
            return RecordOutcome(reason=shortened_reason(outcome.reason), deleted=outcome.deleted)
        if not outcome.deleted and not outcome.filtered and outcome.refusal is None:
            for name in self.needed:
                if outcome.values.get(name) is None:
                    return RecordOutcome(reason=f"column {name}: null, and the target's key or order needs it")
        return outcome
