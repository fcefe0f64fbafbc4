"""Puts files into a lake that is a folder, and takes refused ones out. Nothing is deleted that has another's name."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow.compute as pc
import pyarrow.parquet as pq

from lockstep.adapters.archive.disk import put_whole, to_disk
from lockstep.adapters.iceberg.schema import store_answers
from lockstep.core.errors import BadData, Refusal
from lockstep.core.lake.files import LakeFile, OffsetSums

READ_BACK = ["_stream", "_offset", "_batch"]


def folder_of(address: str) -> Path:
    """Returns the local path of an address such as `file:///srv/lake`. Raises `Refusal` for any other."""
    parts = urlsplit(address)
    if parts.scheme != "file" or parts.netloc or not parts.path.startswith("/"):
        raise Refusal(
            f"the lake's address {address.partition('?')[0]!r} is no folder, such as file:///srv/lake",
            next_command="set LOCKSTEP_LAKE to file:///PATH",
        )
    return Path(unquote(parts.path))


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
    path = folder_of(address)
    try:
        rows = pq.read_table(path, columns=READ_BACK, partitioning=None)
        size = path.stat().st_size
    except (OSError, ValueError) as error:  # what Arrow raises of a truncated file is a ValueError
        raise BadData(f"batch {batch_id}: {address} cannot be read back: {str(error).splitlines()[0]}") from None
    if rows.num_rows != (pc.sum(pc.equal(rows["_batch"], batch_id)).as_py() or 0):
        raise BadData(f"batch {batch_id}: {address} holds rows of another batch")
    return LakeFile(address, rows.num_rows, size, {str(stream): sums for stream, sums in stream_sums(rows).items()})


def stream_sums(rows: pq.ParquetFile) -> dict[int, OffsetSums]:
    """Returns the sums of a table's offsets, by stream. They are exact whatever the offsets are."""
    found: dict[int, OffsetSums] = {}
    for stream in pc.unique(rows["_stream"]).to_pylist():
        offsets = rows["_offset"].filter(pc.equal(rows["_stream"], stream)).to_pylist()
        found[stream] = (len(offsets), sum(offsets), sum(o * o for o in offsets), min(offsets), max(offsets))
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


def preparation(metadata: str, prefix: str, commit_uuid: str) -> list[Path]:
    """Returns the files that have a preparation's id in their names. `metadata` is a file beside them."""
    beside = folder_of(metadata).parent.glob(f"*{commit_uuid}*")
    return sorted([*beside, *folder_of(prefix).glob(f"kept-{commit_uuid}-*")])
