"""Writes files and folders that only their owner may read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_privately(file: Path, text: str) -> None:
    """Writes a file that only its owner may read, in one step."""
    half = file.with_name(f"{file.name}.new")
    half.unlink(missing_ok=True)
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
    half.replace(file)


def private_folder(folder: Path, mode: int = 0o700) -> None:
    """Creates a folder that only its owner may list. Closes one that an earlier version left open."""
    folder.mkdir(parents=True, exist_ok=True, mode=mode)
    folder.chmod(mode)
