"""Tallies one task's records of each stream batch by batch, exactly for any span."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockstep.core.lake.files import LakeFile
from lockstep.core.proof.accounting import Digest, ManifestLine
from lockstep.engine.sinks.stretches import rows_by_stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame

INT64 = 2**63
COUNTED = {"_stream", "_offset", "_timestamp", "_bytes", "_reason"}

SOURCE_LINE_SCHEMA = pa.schema(
    [
        ("task", pa.int64()),
        ("stream_id", pa.int32()),
        ("delivered", pa.int64()),
        ("written", pa.int64()),
        ("rejected", pa.int64()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("digest_sum", pa.string()),
        ("digest_squares", pa.string()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("min_timestamp", pa.timestamp("us", "UTC")),
        ("max_timestamp", pa.timestamp("us", "UTC")),
    ]
)


class Tally:
    """The counts per stream. `from_offsets` are the ranges' begins, for the digest."""

    def __init__(self, task: int, from_offsets: Mapping[int, int]) -> None:
        self._task = task
        self._from_offsets = from_offsets
        self._lines: dict[int, dict[str, Any]] = {}

    def delivered(self, batch: pa.RecordBatch) -> None:
        """Counts records that came from the log: `_stream, _offset, _timestamp, _bytes`."""
        for stream, part in _by_stream(batch):
            line = self._line(stream)
            offsets = part.column("_offset").to_numpy(zero_copy_only=False)
            total, squares = _sums(offsets - self._from_offsets[stream])
            line["delivered"] += len(offsets)
            line["digest_sum"] += total
            line["digest_squares"] += squares
            line["bytes"] += pc.sum(_sizes(part.column("_bytes"))).as_py() or 0
            times = pc.min_max(part.column("_timestamp")).as_py()
            _widen(line, "first_offset", "last_offset", int(offsets.min()), int(offsets.max()))
            _widen(line, "min_timestamp", "max_timestamp", times["min"], times["max"])

    def staged(self, batch: pa.RecordBatch) -> None:
        """Counts staged rows. Rejects have a `_reason`. A record of several rows counts as written once."""
        for stream, part in _by_stream(batch):
            line = self._line(stream)
            good, reasons = part.column("_offset"), part.column("_reason")
            if reasons.null_count < part.num_rows:
                good = good.filter(pc.is_null(reasons))
            line["rejected"] += part.num_rows - len(good)
            line["rows"] += len(good)
            line["_written"].append(_distinct(good.to_numpy(zero_copy_only=False)))

    @property
    def has_lines(self) -> bool:
        """Returns True if anything was counted."""
        return bool(self._lines)

    def untouched(self) -> None:
        """Adds a line of zeros if no record was counted. A missing line then means that the task did not end."""
        if not self._lines:
            self._line(min(self._from_offsets))

    def lines(self) -> pa.RecordBatch:
        """Returns one line per stream, as `SOURCE_LINE_SCHEMA`."""
        rows = []
        for line in self._lines.values():
            seen = line.pop("_written")
            written = len(_distinct(np.concatenate(seen))) if seen else 0
            digests = {name: str(line[name]) for name in ("digest_sum", "digest_squares")}
            rows.append(line | digests | {"written": written})
        return pa.RecordBatch.from_pylist(rows, schema=SOURCE_LINE_SCHEMA)

    def _line(self, stream: int) -> dict[str, Any]:
        if stream not in self._lines:
            counts = dict.fromkeys(("delivered", "rejected", "rows", "bytes", "digest_sum", "digest_squares"), 0)
            self._lines[stream] = {"task": self._task, "stream_id": stream, "_written": []} | counts
        return self._lines[stream]


def _by_stream(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    batch = batch.select([name for name in batch.schema.names if name in COUNTED])
    streams = batch.column("_stream").to_numpy(zero_copy_only=False)
    if (np.diff(streams) < 0).any():
        batch = batch.take(pa.array(np.argsort(streams, kind="stable")))
    return rows_by_stream([batch])


def _sizes(bytes_: pa.Array) -> pa.Array:
    """Returns the true sizes of records. A hidden record's `_bytes` are below zero, the complement of its size."""
    return pc.if_else(pc.less(bytes_, 0), pc.bit_wise_not(bytes_), bytes_)


def _distinct(offsets: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns each offset once. Offsets in a log's order need no search."""
    return offsets if (np.diff(offsets) > 0).all() else np.unique(offsets)


def _sums(distances: np.ndarray[Any, Any]) -> tuple[int, int]:
    if not len(distances):
        return 0, 0
    if int(distances.max()) ** 2 * len(distances) < INT64:  # else numpy would wrap around without a word
        return int(distances.sum()), int((distances * distances).sum())
    exact = [int(distance) for distance in distances]
    return sum(exact), sum(distance * distance for distance in exact)


def _widen(line: dict[str, Any], low: str, high: str, least: Any, most: Any) -> None:
    if least is None:  # not one of these records has it
        return
    line[low] = least if line.get(low) is None else min(line[low], least)
    line[high] = most if line.get(high) is None else max(line[high], most)


def lines_of(frame: DataFrame, targets: int = 1) -> tuple[ManifestLine, ...]:
    """Collects the final lines of the tasks. Each names its target's place if there are several."""
    return tuple(manifest_line(row.asDict(), targets) for row in frame.collect())


def manifest_line(fields: dict[str, Any], targets: int = 1) -> ManifestLine:
    """Converts one of `SOURCE_LINE_SCHEMA`. With several targets, its `place` names the target, or the rows are of each."""
    place = fields.pop("place", None)
    files = json.loads(fields.pop("files", None) or "{}")
    fields["files"] = {int(at): tuple(map(LakeFile.told, its)) for at, its in files.items()}
    digest = Digest(fields["delivered"], int(fields.pop("digest_sum")), int(fields.pop("digest_squares")))
    rows_of = tuple(fields["rows"] if place in {None, each} else 0 for each in range(targets)) if targets > 1 else ()
    fields["rows"] = sum(rows_of) if targets > 1 else fields["rows"]
    return ManifestLine(**fields, digest=digest, rows_of=rows_of)
