"""Packs the code as a zip for executors on other machines, so that it need not be installed there."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

from lockstep.adapters import folders

PACKAGE = Path(__file__).parents[1]
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # of every file in the zip: equal code gives equal bytes


def archive(folder: Path | None = None) -> str:
    """Returns the path of a zip with this very code and the pipelines, made once per content.

    It is in `folder`, or else in a folder that only this user can write.
    """
    sources = {"pipelines/__init__.py": b""} | _sources(folders.root(), "pipelines") | _sources(PACKAGE, "lockstep")
    digest = hashlib.sha256()
    for name, content in sources.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    place = (folder or _folder()) / f"lockstep-{digest.hexdigest()}.zip"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        half = place.with_suffix(f".{os.getpid()}.new")
        with zipfile.ZipFile(half, "w", zipfile.ZIP_DEFLATED) as made:
            for name, content in sources.items():
                made.writestr(zipfile.ZipInfo(name, LONG_AGO), content, zipfile.ZIP_DEFLATED)
        half.replace(place)
    return str(place)


def _sources(folder: Path, name: str) -> dict[str, bytes]:
    found = {}
    for file in sorted(folder.rglob("*")):
        parts = file.relative_to(folder).parts
        if file.is_file() and not any(part == "__pycache__" or part.startswith(".") for part in parts):
            found["/".join((name, *parts))] = file.read_bytes()
    return found


def _folder() -> Path:
    """Returns a folder that only this user can write, because executors import its files."""
    place = Path(tempfile.gettempdir()) / f"lockstep-{os.getuid()}"
    with suppress(FileExistsError):
        place.mkdir(mode=0o700)
    found = place.lstat()  # of itself: a link's owner may turn it to another folder at any time
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        return Path(tempfile.mkdtemp(prefix="lockstep-"))
    return place
