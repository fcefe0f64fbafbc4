"""Decodes records a second time, for a comparison with their rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from lockstep.core.pipeline.columns import NUL
from lockstep.core.pipeline.formats import registered_of
from lockstep.core.pipeline.targets import needed_columns
from lockstep.core.records import LAST_STAMP
from lockstep.formats.envelope import headers_text, storable_text
from lockstep.formats.json.columns import JsonColumns, columnar
from lockstep.formats.judges import Judge, judge_again
from lockstep.formats.rows import UNSURE, RecordOutcome, Unsure, headers_json
from lockstep.formats.values import arrow_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.registry import Registry


ROW, DELETED, REJECTED, FILTERED, UNKNOWN = "row", "deleted", "reject", "filtered", "unknown"
REREAD_COLUMNS = (("_offset", "bigint"), ("Became", "text"), ("Unsure", "text"))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RereadRecord(NamedTuple):
    """One record as Kafka has it. `stamp` is in milliseconds, below 0 if there is none.

    A record that is `withheld` comes without its bytes and is a reject. It is too large, killed its reader, or has a header
    that cannot be read.
    """

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] | None
    stamp: int
    withheld: bool = False
    topic: str = ""

    def without_bytes(self) -> RereadRecord:
        """Returns the record without its bytes. It is not decoded then."""
        return self._replace(key=None, value=None, headers=None, withheld=True)


def undecodable(folder: PipelineFolder, registry: Registry | None) -> str | None:
    """Says why the folder's target cannot be decoded a second time, or returns None if it can."""
    if folder.transform is not None:
        return "transform.py makes the rows"
    if registered_of(folder.pipeline.format) and registry is None:
        return "LOCKSTEP_REGISTRY is not set"
    return None


@dataclass(slots=True)
class SecondReading:
    """The second decoder of records.

    Names a column as unsure whose value a record does not have. Such a column is never compared.
    """

    folder: PipelineFolder
    registry: Registry | None = None
    columns: tuple[Column, ...] = field(init=False)
    _by_columns: JsonColumns | None = field(init=False)
    _judge: Judge = field(init=False)

    def __post_init__(self) -> None:
        self.columns = self.folder.pipeline.columns
        self._by_columns = None if self.folder.pipeline.envelope else columnar(self.folder.pipeline)
        self._judge = judge_again(self.folder, self.registry)

    def __call__(self, records: Sequence[RereadRecord]) -> pa.RecordBatch:
        """Returns one row per record: `_offset`, `Became`, `Unsure` (`,a,b,`, or null) and the pipeline's columns."""
        left, parts = records, []
        if self._by_columns is not None and records:
            places, columns = self._by_columns(pa.array([record.value for record in records], pa.binary()))
            marks = {
                "_offset": pa.array([records[place].offset for place in places], pa.int64()),
                "Became": pa.array([ROW] * len(places), pa.string()),
                "Unsure": pa.nulls(len(places), pa.string()),
            }
            arrays = marks | dict(zip(columns.schema.names, columns.columns, strict=True))
            parts.append(pa.RecordBatch.from_pydict(arrays, schema=self._schema))
            left = [records[place] for place in np.setdiff1d(np.arange(len(records)), places)]
        if left or not parts:
            parts.append(self._alone(left))
        return pa.concat_batches(parts)

    @property
    def _schema(self) -> pa.Schema:
        marks = [("_offset", pa.int64()), ("Became", pa.string()), ("Unsure", pa.string())]
        return pa.schema([*marks, *((column.name, arrow_type(column)) for column in self.columns)])

    def _alone(self, records: Sequence[RereadRecord]) -> pa.RecordBatch:
        judged = [self._judged(record) for record in records]
        arrays: dict[str, Any] = {
            "_offset": pa.array([record.offset for record in records], pa.int64()),
            "Became": pa.array([became for became, _, _ in judged], pa.string()),
            "Unsure": pa.array([f",{','.join(unsure)}," if unsure else None for _, _, unsure in judged], pa.string()),
        }
        for column in self.columns:
            arrays[column.name] = pa.array([values.get(column.name) for _, values, _ in judged], arrow_type(column))
        return pa.RecordBatch.from_pydict(arrays, schema=self._schema)

    def _judged(self, record: RereadRecord) -> tuple[str, dict[str, Any], tuple[str, ...]]:
        names = tuple(column.name for column in self.columns)
        if record.withheld:
            return REJECTED, {}, ()
        try:
            outcome = self._judge(record.key, record.value, headers_json(record.headers))
            if not (outcome.reason or outcome.filtered or outcome.deleted):
                outcome = self._finished(record, outcome)
        except Unsure:
            return UNKNOWN, {}, names
        if outcome.refusal is not None:
            return UNKNOWN, {}, names
        if outcome.reason is not None:
            return REJECTED, {}, ()
        if outcome.filtered:
            return FILTERED, {}, ()
        unsure = tuple(name for name in names if outcome.values.get(name) is UNSURE)
        values = {name: value for name, value in outcome.values.items() if value is not UNSURE}
        became = DELETED if outcome.deleted else UNKNOWN if unsure else ROW
        return became, values, unsure

    def _finished(self, record: RereadRecord, outcome: RecordOutcome) -> RecordOutcome:
        """Adds the envelope's columns. A record without a column that its target needs is a reject."""
        values = outcome.values | self._envelope(record)
        declared = {column.name for column in self.columns}
        pipeline = self.folder.pipeline
        for name in needed_columns(pipeline.targets, pipeline.event_time):
            if name in declared and values.get(name) is None:
                return RecordOutcome(reason=f"column {name}: null, and the target's key or order needs it")
        return RecordOutcome(values, reason=self._misfit(record))

    def _misfit(self, record: RereadRecord) -> str | None:
        """Says why the envelope rejects the record, or returns None."""
        envelope = self.folder.pipeline.envelope
        if envelope is None:
            return None
        if envelope.headers is not None and any(NUL in name for name, _ in record.headers or ()):
            return "a header's name holds NUL"
        column = envelope.key_column
        is_text = column is not None and column.type == "string"
        return (
            "the key is no text" if is_text and record.key is not None and storable_text(record.key) is None else None
        )

    def _envelope(self, record: RereadRecord) -> dict[str, Any]:
        envelope = self.folder.pipeline.envelope
        if envelope is None:
            return {}
        stamp = EPOCH + timedelta(milliseconds=min(record.stamp, LAST_STAMP)) if record.stamp >= 0 else None
        values: dict[str | None, Any] = {
            envelope.timestamp: stamp,
            envelope.headers: headers_text(record.headers),
            envelope.partition: record.partition,
            envelope.offset: record.offset,
            envelope.topic: record.topic,
        }
        if (column := envelope.key_column) is not None:
            is_text = record.key is not None and column.type == "string"
            values[column.name] = storable_text(record.key) if is_text else record.key
        return {name: value for name, value in values.items() if name is not None}
