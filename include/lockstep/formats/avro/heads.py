"""Takes records apart by the schema that their heads name. Puts together what was decoded of each schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lockstep.core.formats.registered import HEAD_BYTES, MAGIC
from lockstep.formats.avro.cursors import Cursors
from lockstep.formats.values import arrow_type

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from lockstep.core.pipeline.columns import Column
    from lockstep.formats.avro.cursors import Places

    Decoded = tuple[Places, pa.RecordBatch]


def by_schema(values: pa.Array, behind: bytes = b"") -> Iterator[tuple[int, Places, Cursors]]:
    """Yields each schema id with the places of its `binary` values, and cursors behind their heads.

    With `behind`, leaves values whose head is not followed by these bytes.
    """
    _, offsets_at, data = values.buffers()
    if not len(values) or not data:
        return
    offsets = np.frombuffer(offsets_at, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    begins, ends = offsets[:-1], offsets[1:]
    octets, body = np.frombuffer(data, np.uint8), HEAD_BYTES + len(behind)
    good = (ends - begins >= body) & values.is_valid().to_numpy(zero_copy_only=False)
    for place, byte in ((0, MAGIC[0]), *enumerate(behind, HEAD_BYTES)):
        good &= octets.take(begins + place, mode="clip") == byte
    places = np.flatnonzero(good)
    heads = octets[begins[places][:, None] + np.arange(1, HEAD_BYTES)]
    ids = heads.copy().view(">u4")[:, 0] if len(heads) else places
    known = np.unique(ids).tolist()
    for schema_id in known:
        mine = places if len(known) == 1 else places[ids == schema_id]
        yield schema_id, mine, Cursors(data, begins[mine] + body, ends[mine])


def in_order(parts: Iterable[Decoded], columns: Sequence[Column]) -> Decoded:
    """Returns the decoded records of all schemas as one batch, in the order of their places."""
    found = list(parts)
    if not found:
        schema = pa.schema([(column.name, arrow_type(column)) for column in columns])
        return np.array([], np.int64), pa.RecordBatch.from_pylist([], schema=schema)
    if len(found) == 1:
        return found[0]
    every = np.concatenate([places for places, _ in found])
    order = np.argsort(every)
    return every[order], pa.concat_batches([batch for _, batch in found]).take(pa.array(order))


def good_rows(
    cursors: Cursors, found: Mapping[str, pa.Array], columns: Sequence[Column], needed: Collection[str]
) -> pa.RecordBatch:
    """Returns the columns of the good records. Refuses those with bytes left, and those without a needed value.

    A column that nothing was found for is null.
    """
    cursors.finish()
    arrays = []
    for column in columns:
        array = found.get(column.name)
        array = pa.nulls(len(cursors.good), arrow_type(column)) if array is None else array
        if column.name in needed and array.null_count:
            cursors.refuse(cursors.rows(), array.is_null().to_numpy(zero_copy_only=False))
        arrays.append(array)
    batch = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])
    return batch if cursors.good.all() else batch.filter(pa.array(cursors.good))
