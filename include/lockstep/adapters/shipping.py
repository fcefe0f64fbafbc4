"""The engine as a zip: what executors on other machines import, so that nobody installs Lockstep there."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def archive() -> str:
    """The path of a zip that holds this very code; made once per content, in a folder that only we can write."""
    sources = {file.relative_to(PACKAGE.parent).as_posix(): file.read_bytes() for file in sorted(_sources())}
    digest = hashlib.sha256()
    for name, content in sources.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    place = _folder() / f"lockstep-{digest.hexdigest()[:16]}.zip"
    if not place.exists():
        half = place.with_suffix(f".{os.getpid()}.new")
        with zipfile.ZipFile(half, "w", zipfile.ZIP_DEFLATED) as made:
            for name, content in sources.items():
                made.writestr(name, content)
        half.replace(place)
    return str(place)


def _sources() -> list[Path]:
    return [file for file in PACKAGE.rglob("*") if file.is_file() and "__pycache__" not in file.parts]


def _folder() -> Path:
    """Ours alone: what executors import must not be somebody else's."""
    place = Path(tempfile.gettempdir()) / f"lockstep-{os.getuid()}"
    place.mkdir(mode=0o700, exist_ok=True)
    found = place.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        return Path(tempfile.mkdtemp(prefix="lockstep-"))
    return place
