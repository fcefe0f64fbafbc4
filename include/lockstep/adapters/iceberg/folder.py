"""Puts files into the lake, and takes refused ones out. Nothing is deleted that has another's name."""

from __future__ import annotations

import shutil
from operator import attrgetter
from typing import TYPE_CHECKING

from lockstep.adapters.iceberg.schema import store_answers
from lockstep.adapters.iceberg.store import lake_place
from lockstep.core.errors import Refusal
from lockstep.core.lake.store_words import NO_STORE, TO_CORRECT
from lockstep.core.lake.within import require_below

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from lockstep.adapters.iceberg.store import LakePlace

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


def sweep_preparation(metadata: str, prefix: str, commit_uuid: str, table: str) -> int:
    """Deletes the files of a preparation that was refused. Returns their number. `table` is the folder of its table."""
    require_inside(metadata.rpartition("/")[0], table)
    require_inside(prefix, table)
    with store_answers(prefix):
        return _delete(preparation(metadata, prefix, commit_uuid))


def sweep_prefix(prefix: str, table: str) -> int:
    """Deletes everything below a dead attempt's prefix, in the folder of its table. Returns the number of files."""
    require_inside(prefix, f"{table.rstrip('/')}/data/lockstep")
    with store_answers(prefix):
        folder = lake_place(prefix)
        gone = _delete(folder.files())
        folder.delete_empty()
        return gone


def sweep_losers(prefix: str, counted: Collection[str], table: str) -> int:
    """Deletes what tries that lost have left below a committed attempt's prefix. Returns the number of files.

    Files that count stay, and so do those that a preparation has written.
    """
    require_inside(prefix, f"{table.rstrip('/')}/data/lockstep")
    keeps = {lake_place(path).name for path in counted}
    with store_answers(prefix):
        found = [file for file in lake_place(prefix).files() if not file.name.startswith("kept-")]
        return _delete(file for file in found if file.name not in keeps)


def require_inside(address: str, folder: str) -> None:
    """Raises `Refusal` unless the address is below the folder, where links lead as well."""
    require_below(address, folder)
    if (path := lake_place(address).local) and (root := lake_place(folder).local):
        real, top = path.resolve(), root.resolve()
        # the folder itself may be a link of the operator's
        if not real.is_relative_to(top) or real == top:
            require_below(f"file://{real}", folder)


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
