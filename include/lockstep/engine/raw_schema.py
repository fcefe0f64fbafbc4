"""Defines the raw records that a reader gives: coordinates, bytes and sizes, before anything is decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lockstep.core.records import READ_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lockstep.core.offsets import StreamRange

    Read = Callable[[Sequence[StreamRange]], Iterable[pa.RecordBatch]]

ARROW_TYPES = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"),
}
RAW_SCHEMA = pa.schema([(name, ARROW_TYPES[type_]) for name, type_ in READ_COLUMNS])
