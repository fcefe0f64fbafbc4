"""Puts files into a lake that is a folder, and takes refused ones out. Nothing is deleted that has another's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lockstep.adapters.archive.disk import put_whole, to_disk
from lockstep.adapters.iceberg.data_file import folder_of
from lockstep.adapters.iceberg.schema import store_answers
from lockstep.adapters.iceberg.values import value_digests
from lockstep.core.errors import BadData
from lockstep.core.lake.files import LakeFile, OffsetSums, add_sums

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

READ_BACK = ["_stream", "_offset", "_batch"]
WORD = 2**63


def make_prefix(prefix: str) -> None:
    """Makes the folder of an attempt's files, durably. Tasks write nowhere else, and make no folder."""
    with store_answers(prefix):
        path = folder_of(prefix)
        path.mkdir(parents=True, exist_ok=True)
        for folder in (path.parent, path.parent.parent, path.parent.parent.parent):
            to_disk(folder)


def put_file(local: Path, address: str) -> None:
    """Copies a local file to this address. It is there as a whole and on disk, or not at all."""
    with store_answers(address):
        path = folder_of(address)
        path.parent.mkdir(parents=True, exist_ok=True)
        put_whole(local, path, path.with_name(f".{path.name}"))
        for folder in (path.parent.parent, path.parent.parent.parent):
            to_disk(folder)


def look_back(address: str, batch_id: int) -> LakeFile:
    """Reads the coordinates of a file's rows back from the store. Raises `BadData` for a file that is not whole."""
    return _read_back(address, batch_id, None)[0]


def look_back_at_values(address: str, batch_id: int, columns: Sequence[str]) -> tuple[LakeFile, dict[int, Any]]:
    """Reads all of a file back, and digests these columns. Returns the offsets and ordinals of its rows, too, by stream."""
    return _read_back(address, batch_id, columns)


def _read_back(address: str, batch_id: int, columns: Sequence[str] | None) -> tuple[LakeFile, dict[int, Any]]:
    path = folder_of(address)
    sums: dict[int, OffsetSums] = {}
    digests: dict[int, int] = {}
    places: dict[int, list[Any]] = {}
    count = 0
    try:
        file = pq.ParquetFile(path)
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
        size = path.stat().st_size
    except (OSError, ValueError, KeyError) as error:  # what Arrow raises of a truncated file is a ValueError
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


def settle(metadata: str, prefix: str, commit_uuid: str) -> None:
    """Forces the files of a preparation to disk, so that no failure of the machine leaves a pointer without them."""
    files = preparation(metadata, prefix, commit_uuid)
    for path in (*files, *{file.parent for file in files}):
        to_disk(path)


def sweep_preparation(metadata: str, prefix: str, commit_uuid: str) -> int:
    """Deletes the files of a preparation that was refused. Returns their number."""
    files = preparation(metadata, prefix, commit_uuid)
    for path in files:
        path.unlink(missing_ok=True)
    return len(files)


def sweep_prefix(prefix: str) -> int:
    """Deletes everything below a dead attempt's prefix. Returns the number of files."""
    folder = folder_of(prefix)
    files = [path for path in folder.glob("*") if path.is_file()]
    for path in files:
        path.unlink(missing_ok=True)
    if folder.is_dir():
        folder.rmdir()
    return len(files)


def sweep_losers(prefix: str, counted: Collection[str]) -> int:
    """Deletes what tries that lost have left below a committed attempt's prefix. Returns the number of files.

    Files that count stay, and so do those that a preparation has written.
    """
    keeps = {folder_of(path).name for path in counted}
    found = [path for path in folder_of(prefix).glob("*") if path.is_file() and not path.name.startswith("kept-")]
    losers = [path for path in found if path.name not in keeps]
    for path in losers:
        path.unlink(missing_ok=True)
    return len(losers)


def preparation(metadata: str, prefix: str, commit_uuid: str) -> list[Path]:
    """Returns the files that have a preparation's id in their names. `metadata` is a file beside them."""
    beside = folder_of(metadata).parent.glob(f"*{commit_uuid}*")
    return sorted([*beside, *folder_of(prefix).glob(f"kept-{commit_uuid}-*")])
