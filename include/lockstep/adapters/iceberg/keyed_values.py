"""Tells rows of some keys from others by hashes, and sums up what a keyed table holds of each batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockstep.adapters.iceberg.values import LOW, ODD, mixed, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lockstep.core.lake.keyed import HeldRows

    Words = np.ndarray[Any, np.dtype[np.uint64]]

# Bounds of files are compared with keys of these types. A NaN has no bounds.
WITH_BOUNDS = (pa.types.is_string, pa.types.is_integer, pa.types.is_date, pa.types.is_timestamp, pa.types.is_decimal)


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a batch's rows, by 64 bits each, sorted. `bounds` has the least and the greatest value of a column.

    A row of another key may have the same bits. It then counts as one of these, and comes out as it was.
    """

    columns: tuple[str, ...]
    hashes: Words
    rows: int
    bounds: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    def hold(self, rows: pa.RecordBatch) -> pa.Array:
        """Returns, for each row, if it has one of these keys."""
        if not len(self.hashes):
            return pa.array(np.zeros(rows.num_rows, bool))
        wanted = _hashed(rows, self.columns)
        places = np.searchsorted(self.hashes, wanted).clip(max=len(self.hashes) - 1)
        return pa.array(self.hashes[places] == wanted)


def gather_keys(columns: Sequence[str], batches: Iterable[pa.RecordBatch]) -> Keys:
    """Returns the keys of rows, which come in the types of their table."""
    found: list[Words] = []
    bounds: dict[str, tuple[Any, Any]] = {}
    count = 0
    for rows in batches:
        count += rows.num_rows
        found.append(np.unique(_hashed(rows, columns)))
        for name in columns:
            column = rows.column(name)
            if column.null_count < len(column) and any(is_bounded(column.type) for is_bounded in WITH_BOUNDS):
                low, high = (each.as_py() for each in pc.min_max(column).values())
                before = bounds.get(name, (low, high))
                bounds[name] = (min(before[0], low), max(before[1], high))
    hashes = np.unique(np.concatenate(found)) if found else np.zeros(0, np.uint64)
    return Keys(tuple(columns), hashes, count, bounds)


def held_rows(rows: pa.RecordBatch, ids: Mapping[str, int]) -> HeldRows:
    """Returns number and sum of the hashes of rows, by batch and stream.

    A hash covers each value with its column's id. So a new column that is empty changes none, and neither does a name.
    """
    if not rows.num_rows:
        return {}
    hashes = np.full(rows.num_rows, ODD)
    for name, id_ in ids.items():
        column = rows.column(name)
        salted = mixed(words_of(column) * ODD + np.uint64(id_))
        hashes = hashes + np.where(column.is_null().to_numpy(zero_copy_only=False), np.uint64(0), salted)
    hashes = mixed(hashes)
    batches, streams = (rows.column(name).to_numpy(zero_copy_only=False) for name in ("_batch", "_stream"))
    order = np.lexsort((streams, batches))
    batches, streams, hashes = batches[order], streams[order], hashes[order]
    changes = (batches[1:] != batches[:-1]) | (streams[1:] != streams[:-1])
    starts = np.concatenate([[0], np.flatnonzero(changes) + 1])
    counts = np.diff(np.append(starts, len(batches)))
    highs, lows = (np.add.reduceat(half, starts) for half in (hashes >> np.uint64(32), hashes & LOW))
    return {
        (int(batches[at]), int(streams[at])): (int(count), (int(high) << 32) + int(low))
        for at, count, high, low in zip(starts, counts, highs, lows, strict=True)
    }


def _hashed(rows: pa.RecordBatch, columns: Sequence[str]) -> Words:
    hashes = mixed(np.full(rows.num_rows, ODD))
    for name in columns:
        hashes = mixed(hashes * ODD + words_of(rows.column(name)))
    return hashes
