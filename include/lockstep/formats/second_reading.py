"""Decodes records a second time, for a comparison with their rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockstep.core.formats.registered import EVERY
from lockstep.core.pipeline.formats import Custom, registered_of
from lockstep.core.records import LAST_STAMP, UNAVAILABLE
from lockstep.formats.judged import RecordDecoder
from lockstep.formats.judges import Judge, judge_of
from lockstep.formats.rows import RecordOutcome, headers_json
from lockstep.formats.values import PLAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

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


class SecondReading:
    """The second decoder of records, which is the first one again.

    Names a column as unsure whose value a record does not have.
    """

    def __init__(self, folder: PipelineFolder, registry: Registry | None = None) -> None:
        pipeline = folder.pipeline
        self.columns = pipeline.columns
        # It reads what many tasks have read, so it may meet as many unknown ids as all of them.
        limits = replace(pipeline.record_limits, schemas=EVERY)
        pipeline = replace(pipeline, record_limits=limits)
        judge = judge_of(pipeline, folder.decode, registry)
        if isinstance(pipeline.format, Custom):
            judge = _unfailing(judge)
        self._decode = RecordDecoder(pipeline, folder.decode, registry, keeps_bytes=False).judged(judge)

    def __call__(self, records: Sequence[RereadRecord]) -> pa.RecordBatch:
        """Returns one row per record: `_offset`, `Became`, `Unsure` (`,a,b,`, or null) and the pipeline's columns."""
        raw = _raw_batch(records)
        found, refusals = self._decode(raw)
        marks = found.get(UNAVAILABLE, pa.nulls(len(records), pa.string()))
        unsure = pc.binary_join_element_wise("", marks, "", ",")
        tests = [pc.is_valid(found["_reason"]), found["_filtered"], found["_deleted"], pc.is_valid(unsure)]
        became = pc.case_when(
            pc.make_struct(*tests), *(pa.scalar(word) for word in (REJECTED, FILTERED, DELETED, UNKNOWN, ROW))
        )
        if refusals:
            is_refused = pa.array([place in refusals for place in range(len(records))])
            names = ",".join(column.name for column in self.columns)
            became, unsure = pc.if_else(is_refused, UNKNOWN, became), pc.if_else(is_refused, f",{names},", unsure)
        columns = {column.name: found[column.name] for column in self.columns}
        head = {"_offset": raw.column("_offset"), "Became": became, "Unsure": unsure}
        return pa.RecordBatch.from_pydict(head | columns)


def _raw_batch(records: Sequence[RereadRecord]) -> pa.RecordBatch:
    """Returns the records as the decoder gets them. A withheld one is of a size below zero, which makes it a reject."""
    stamps = np.array([record.stamp for record in records], np.int64)
    moments = np.minimum(stamps, LAST_STAMP) * 1_000
    return pa.RecordBatch.from_pydict(
        {
            "_topic": pa.array([record.topic for record in records], pa.string()),
            "_partition": pa.array([record.partition for record in records], pa.int32()),
            "_offset": pa.array([record.offset for record in records], pa.int64()),
            "_timestamp": pa.array(moments, PLAIN["timestamp"], mask=stamps < 0),
            "_key": pa.array([record.key for record in records], pa.binary()),
            "_value": pa.array([record.value for record in records], pa.binary()),
            "_headers": pa.array([headers_json(record.headers) for record in records], pa.string()),
            "_bytes": pa.array([-1 if record.withheld else 0 for record in records], pa.int64()),
        }
    )


def _unfailing(judge: Judge) -> Judge:
    """Returns the judge that refuses what the pipeline's own code fails for, so that no column of it is compared."""

    def judged(key: bytes | None, value: bytes | None, headers: str | None) -> RecordOutcome:
        try:
            return judge(key, value, headers)
        except Exception as error:  # noqa: BLE001 - whatever the pipeline's own code raises ends its task
            return RecordOutcome(refusal=type(error).__name__)

    return judged
