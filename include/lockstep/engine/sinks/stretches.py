"""Cuts rows into stretches of one stream, in their order."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from lockstep.core.errors import BadData

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

END = -1  # the stream of a row that says that a task's input is at its end


def rows_by_stream(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields each stream with its next rows, none of them empty. One Arrow batch may hold two ranges.

    Raises `BadData` for a row without a stream.
    """
    for batch in batches:
        if not batch.num_rows:
            continue
        streams = stream_column(batch)
        cuts = [0, *(np.flatnonzero(np.diff(streams)) + 1).tolist(), batch.num_rows]
        for begin, end in pairwise(cuts):
            yield int(streams[begin]), batch.slice(begin, end - begin)


def stream_column(batch: pa.RecordBatch) -> np.ndarray[Any, Any]:
    """Returns the stream of each row. Raises `BadData` for a row without one."""
    if batch.column("_stream").null_count:
        raise BadData("the transform gives rows whose _stream is null, and every row answers for its record")
    streams: np.ndarray[Any, Any] = batch.column("_stream").to_numpy(zero_copy_only=False)
    return streams
