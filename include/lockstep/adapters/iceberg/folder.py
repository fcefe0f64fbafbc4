"""Puts files into the lake, and takes refused ones out. Nothing is deleted that has another's name."""

from __future__ import annotations

import shutil
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lockstep.adapters.iceberg.schema import require_store, store_answers
from lockstep.adapters.iceberg.store import lake_place
from lockstep.adapters.iceberg.values import value_digests
from lockstep.core.errors import BadData, Refusal
from lockstep.core.lake.files import LakeFile, OffsetSums, add_sums
from lockstep.core.lake.store_words import NO_STORE, TO_CORRECT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from lockstep.adapters.iceberg.store import LakePlace

READ_BACK = ["_stream", "_offset", "_batch"]
WORD = 2**63
COPIED_BYTES = 2**20


def make_prefix(prefix: str) -> None:
    """Makes the folder of an attempt's files, durably. Tasks write nowhere else, and make no folder."""
    with store_answers(prefix):
        lake_place(prefix).make(above=3)


def put_file(local: Path, address: str) -> None:
    """Copies a local file to this address. It is there as a whole and safe, or not at all."""
    with store_answers(address):
        place = lake_place(address)
        place.parent.make(above=2)
        with local.open("rb") as source, place.fs.open_output_stream(place.unfinished.path) as out:
            shutil.copyfileobj(source, out, COPIED_BYTES)
        place.finish()


def look_back(address: str, batch_id: int) -> LakeFile:
    """Reads the coordinates of a file's rows back from the store. Raises `BadData` for a file that is not whole."""
    return _read_back(address, batch_id, None)[0]


def look_back_at_values(address: str, batch_id: int, columns: Sequence[str]) -> tuple[LakeFile, dict[int, Any]]:
    """Reads all of a file back, and digests these columns. Returns the offsets and ordinals of its rows, too, by stream."""
    return _read_back(address, batch_id, columns)


def _read_back(address: str, batch_id: int, columns: Sequence[str] | None) -> tuple[LakeFile, dict[int, Any]]:
    place = lake_place(address)
    sums: dict[int, OffsetSums] = {}
    digests: dict[int, int] = {}
    places: dict[int, list[Any]] = {}
    count = 0
    try:
        file = pq.ParquetFile(place.fs.open_input_file(place.path))
        for rows in file.iter_batches(columns=READ_BACK if columns is None else None):
            count += rows.num_rows
            if rows.num_rows != (pc.sum(pc.equal(rows["_batch"], batch_id)).as_py() or 0):
                raise BadData(f"batch {batch_id}: {address} holds rows of another batch")
            for stream, its in stream_sums(rows).items():
                sums[stream] = add_sums(sums.get(stream), its)
            if columns is not None:
                for stream, digest in value_digests(rows, columns).items():
                    digests[stream] = digests.get(stream, 0) + digest
                    places.setdefault(stream, []).append(_places(rows, stream))
        size = place.size()
    except (OSError, ValueError, KeyError) as error:  # what Arrow raises of a truncated file is a ValueError
        if isinstance(error, OSError):
            require_store(address, error)
        raise BadData(f"batch {batch_id}: {address} cannot be read back: {str(error).splitlines()[0]}") from None
    streams = {str(stream): its for stream, its in sums.items()}
    told = {str(stream): digest for stream, digest in digests.items()}
    return LakeFile(address, count, size, streams, told, tuple(columns or ())), {
        stream: np.concatenate(parts, axis=1) for stream, parts in places.items()
    }


def _places(rows: pa.RecordBatch, stream: int) -> Any:
    """Returns offsets and ordinals of a stream's rows, as two lines of one array."""
    its = rows.select(["_offset", "_ordinal"]).filter(pc.equal(rows["_stream"], stream))
    return np.stack([column.cast(pa.int64()).to_numpy(zero_copy_only=False) for column in its.columns])


def doubled(parts: Collection[Any]) -> tuple[int, int] | None:
    """Returns an (offset, ordinal) that two rows of these have, or None if each has its own."""
    together = np.concatenate([*parts], axis=1)
    if (np.diff(together[0]) > 0).all():  # as a log delivers them
        return None
    order = np.lexsort(together[::-1])
    sorted_ = together[:, order]
    same = (sorted_[:, 1:] == sorted_[:, :-1]).all(axis=0)
    if not same.any():
        return None
    offset, ordinal = sorted_[:, int(np.argmax(same))]
    return int(offset), int(ordinal)


def stream_sums(rows: pa.RecordBatch | pa.Table) -> dict[int, OffsetSums]:
    """Returns the sums of a table's offsets, by stream. They are exact whatever the offsets are."""
    streams, offsets = (rows[name].to_numpy(zero_copy_only=False) for name in ("_stream", "_offset"))
    found: dict[int, OffsetSums] = {}
    for stream in np.unique(streams):
        its = offsets[streams == stream]
        first, last, n = int(its.min()), int(its.max()), len(its)
        distances = its - first
        if (last - first) ** 2 * n < WORD:
            total, squares = int(distances.sum()), int((distances * distances).sum())
        else:  # numpy would wrap around without a word
            exact = [int(d) for d in distances]
            total, squares = sum(exact), sum(d * d for d in exact)
        found[int(stream)] = (n, total + n * first, squares + 2 * first * total + n * first * first, first, last)
    return found


def settle(files: Sequence[str]) -> None:
    """Makes written files safe, so that no failure of a machine leaves a pointer without them.

    Forces those of a folder to disk. Asks an object store for them, because some servers take anything.
    """
    for address in files:
        with store_answers(address):
            place = lake_place(address)
            if not place.size():
                raise Refusal(f"{address}: {NO_STORE}: it does not show what it took", next_command=TO_CORRECT)
            place.settle()
    for folder in {address.rpartition("/")[0] for address in files}:
        lake_place(folder).settle()


def sweep_files(files: Iterable[str]) -> None:
    """Deletes these files."""
    for address in files:
        with store_answers(address):
            lake_place(address).delete()


def sweep_preparation(metadata: str, prefix: str, commit_uuid: str) -> int:
    """Deletes the files of a preparation that was refused. Returns their number."""
    with store_answers(prefix):
        return _delete(preparation(metadata, prefix, commit_uuid))


def sweep_prefix(prefix: str) -> int:
    """Deletes everything below a dead attempt's prefix. Returns the number of files."""
    with store_answers(prefix):
        folder = lake_place(prefix)
        gone = _delete(folder.files())
        folder.delete_empty()
        return gone


def sweep_losers(prefix: str, counted: Collection[str]) -> int:
    """Deletes what tries that lost have left below a committed attempt's prefix. Returns the number of files.

    Files that count stay, and so do those that a preparation has written.
    """
    keeps = {lake_place(path).name for path in counted}
    with store_answers(prefix):
        found = [file for file in lake_place(prefix).files() if not file.name.startswith("kept-")]
        return _delete(file for file in found if file.name not in keeps)


def preparation(metadata: str, prefix: str, commit_uuid: str) -> list[LakePlace]:
    """Returns the files that have a preparation's id in their names. `metadata` is a file beside them."""
    beside = [file for file in lake_place(metadata).parent.files() if commit_uuid in file.name]
    kept = [file for file in lake_place(prefix).files() if file.name.startswith(f"kept-{commit_uuid}-")]
    return sorted([*beside, *kept], key=attrgetter("path"))


def _delete(files: Iterable[LakePlace]) -> int:
    found = list(files)
    for file in found:
        file.delete()
    return len(found)
