"""Reads parts of a file, and digests of what is written into one."""

from __future__ import annotations

import hashlib
from typing import IO

from lockstep.core.staging import COPY_SIZE


class FileSlice:
    """A part of a file, to be read from its beginning."""

    def __init__(self, file: IO[bytes], begin: int, end: int) -> None:
        self._file, self._at, self._end = file, begin, end

    def read(self, size: int = -1) -> bytes:
        """Returns the next bytes, at most `size`, and none at the end."""
        self._file.seek(self._at)
        found = self._file.read(self._end - self._at if size < 0 else min(size, self._end - self._at))
        self._at += len(found)
        return found


class FileDigest:
    """A file that keeps the digest of what is written into it."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        """Takes some bytes."""
        self._digest.update(data)
        return len(data)

    @property
    def value(self) -> str:
        """Returns the digest of all bytes so far."""
        return self._digest.hexdigest()


def digest_of_file(file: IO[bytes]) -> str:
    """Returns the digest of what is left to read of a file."""
    digest = FileDigest()
    while data := file.read(COPY_SIZE):
        digest.write(data)
    return digest.value
