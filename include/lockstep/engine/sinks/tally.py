"""Tallies one task's records of each stream batch by batch, exactly for any span."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lockstep.core.lake.files import LakeFile
from lockstep.core.proof.accounting import Digest, ManifestLine
from lockstep.core.records import HEADERS_UNIT
from lockstep.engine.sinks.stretches import stream_column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

INT64 = 2**63
NO_STAMP = INT64 - 1  # no timestamp: the calendar ends before it
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
        streams, begins, counts, batch = _by_stream(batch)
        if not streams:
            return
        offsets = batch.column("_offset").to_numpy(zero_copy_only=False)
        distances = offsets - np.repeat([self._from_offsets[stream] for stream in streams], counts)
        sizes = _sizes(batch.column("_bytes"))
        earliest, latest = _bounds(batch.column("_timestamp"), begins)
        found = zip(
            streams,
            counts,
            _sums(distances, begins, counts),
            np.add.reduceat(sizes, begins).tolist(),
            np.minimum.reduceat(offsets, begins).tolist(),
            np.maximum.reduceat(offsets, begins).tolist(),
            earliest,
            latest,
            strict=True,
        )
        for stream, count, (total, squares), size, first, last, least, most in found:
            line = self._line(stream)
            line["delivered"] += count
            line["digest_sum"] += total
            line["digest_squares"] += squares
            line["bytes"] += size
            _widen(line, "first_offset", "last_offset", first, last)
            _widen(line, "min_timestamp", "max_timestamp", least, most)

    def staged(self, batch: pa.RecordBatch) -> None:
        """Counts staged rows. Rejects have a `_reason`. A record of several rows counts as written once."""
        streams, begins, counts, batch = _by_stream(batch)
        offsets = batch.column("_offset").to_numpy(zero_copy_only=False)
        reasons = batch.column("_reason")
        is_good = reasons.is_null().to_numpy(zero_copy_only=False) if reasons.null_count < len(offsets) else None
        for stream, begin, count in zip(streams, begins, counts, strict=True):
            rows = slice(begin, begin + count)
            line, good = self._line(stream), offsets[rows] if is_good is None else offsets[rows][is_good[rows]]
            line["rejected"] += count - len(good)
            line["rows"] += len(good)
            line["_written"].append(_distinct(good))

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


def _by_stream(batch: pa.RecordBatch) -> tuple[list[int], list[int], list[int], pa.RecordBatch]:
    """Returns the streams, where each begins, how many rows it has, and the counted columns in their order."""
    batch = batch.select([name for name in batch.schema.names if name in COUNTED])
    streams = stream_column(batch)
    if (np.diff(streams) < 0).any():
        order = np.argsort(streams, kind="stable")
        batch, streams = batch.take(pa.array(order)), streams[order]
    begins = np.flatnonzero(np.diff(streams, prepend=streams[:1] - 1))
    counts = np.diff(begins, append=len(streams))
    return streams[begins].tolist(), begins.tolist(), counts.tolist(), batch


def _sizes(bytes_: pa.Array) -> np.ndarray[Any, Any]:
    """Returns the true sizes of records: of a hidden record the complement, and without the count of headers."""
    sizes: np.ndarray[Any, Any] = bytes_.fill_null(0).to_numpy().astype(np.int64)
    return np.where(sizes < 0, ~sizes, sizes) % HEADERS_UNIT


def _distinct(offsets: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns each offset once. Offsets in a log's order need no search."""
    return offsets if (np.diff(offsets) > 0).all() else np.unique(offsets)


def _sums(distances: np.ndarray[Any, Any], begins: list[int], counts: list[int]) -> list[tuple[int, int]]:
    """Returns the sums of each stream's distances and of their squares, exactly."""
    farthest = np.maximum.reduceat(distances, begins).tolist()
    totals, squares = (np.add.reduceat(each, begins).tolist() for each in (distances, distances * distances))
    found = list(zip(totals, squares, strict=True))
    for place, (begin, count) in enumerate(zip(begins, counts, strict=True)):
        if farthest[place] ** 2 * count >= INT64:  # numpy has wrapped around without a word
            exact = distances[begin : begin + count].tolist()
            found[place] = sum(exact), sum(distance * distance for distance in exact)
    return found


def _bounds(timestamps: pa.Array, begins: list[int]) -> tuple[list[int | None], list[int | None]]:
    """Returns the first and the last timestamp of each stream, in microseconds. None where no record has one."""
    microseconds = timestamps.cast(pa.timestamp("us", timestamps.type.tz)).cast(pa.int64())
    least = np.minimum.reduceat(microseconds.fill_null(NO_STAMP).to_numpy(), begins).tolist()
    most = np.maximum.reduceat(microseconds.fill_null(-NO_STAMP).to_numpy(), begins).tolist()
    return [None if each == NO_STAMP else each for each in least], [
        None if each == -NO_STAMP else each for each in most
    ]


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
