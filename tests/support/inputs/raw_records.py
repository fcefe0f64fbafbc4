"""Makes raw records, as readers give them to the decoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lockstep.engine.raw_schema import RAW_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence


def raw_batch(values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None) -> pa.RecordBatch:
    """Returns raw records with these values, at offsets 0, 1 and so on of one partition."""
    rows = len(values)
    columns = {
        "_stream": [0] * rows,
        "_offset": list(range(rows)),
        "_ordinal": [0] * rows,
        "_timestamp": [0] * rows,
        "_key": list(keys) if keys is not None else [b"k"] * rows,
        "_value": list(values),
        "_headers": [None] * rows,
        "_bytes": [len(value or b"") for value in values],
        "_topic": ["t"] * rows,
        "_partition": [0] * rows,
    }
    return pa.RecordBatch.from_pydict(columns, schema=RAW_SCHEMA)
