"""Gives files their names on disk. A failure of the machine leaves each of them whole, or not there."""

from __future__ import annotations

import os
from shutil import copyfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def put_whole(local: Path, path: Path, unfinished: Path) -> None:
    """Copies a file under another name in the same folder, forces it to disk, and then gives it its name."""
    copyfile(local, unfinished)
    to_disk(unfinished)
    unfinished.rename(path)
    to_disk(path.parent)


def to_disk(path: Path) -> None:
    """Writes the contents of a file or a folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
