"""Defines the raw records that a reader gives: coordinates, bytes and sizes, before anything is decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lockstep.core.records import READ_COLUMNS
from lockstep.formats.values import PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lockstep.core.offsets import StreamRange

    Read = Callable[[Sequence[StreamRange]], Iterable[pa.RecordBatch]]

RAW_SCHEMA = pa.schema([(name, PLAIN[type_]) for name, type_ in READ_COLUMNS])
