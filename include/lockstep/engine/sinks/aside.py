"""Passes rows from one of a task's workers to another through files.

Both run on one machine, with Spark between them.
"""

from __future__ import annotations

import io
import secrets
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from lockstep.core.settings import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DAY = 86_400


def keep_intake(task: str, lines: pa.RecordBatch, rows: Sequence[pa.RecordBatch]) -> None:
    """Writes the counts of one intake, and the rows that the transform must not see. Both may be empty."""
    _write(_folder() / f"lockstep-{task}-{secrets.token_hex(8)}", [lines], rows)


def kept_intakes(task: str) -> list[tuple[pa.RecordBatch, list[pa.RecordBatch]]]:
    """Returns (lines, rows) of each complete intake of the task, and deletes their files."""
    found = []
    for file in sorted(_folder().glob(f"lockstep-{task}-*.arrow")):
        lines, rows = _read(file, 2)
        found.append((lines[0], rows))
    return found


def sweep() -> None:
    """Deletes files that failed tasks left over a day ago. On a server that lives long, nothing else would."""
    long_ago = time.time() - DAY
    for file in (*_folder().glob("lockstep-*.arrow"), *_folder().glob("lockstep-*.new")):
        with suppress(FileNotFoundError):  # another task sweeps, too
            if file.stat().st_mtime < long_ago:
                file.unlink()


class Spool:
    """A queue of pieces in an unnamed file, which ends with its process."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(dir=_folder())  # noqa: SIM115 - it is closed with the range
        self._sizes: list[int] = []

    def put(self, piece: io.BytesIO) -> None:
        """Appends a piece."""
        self._sizes.append(self._file.write(piece.getbuffer()))

    def pieces(self) -> Iterator[io.BytesIO]:
        """Yields all pieces in their order, from the first at each call."""
        self._file.seek(0)
        for size in self._sizes:
            yield io.BytesIO(self._file.read(size))

    def close(self) -> None:
        """Deletes the pieces."""
        self._file.close()


def _write(file: Path, *parts: Sequence[pa.RecordBatch]) -> None:
    with pa.OSFile(str(file.with_suffix(".new")), "wb") as out:
        for batches in parts:
            with pa.ipc.new_stream(out, batches[0].schema if batches else pa.schema([])) as stream:
                for batch in batches:
                    stream.write_batch(batch)
    file.with_suffix(".new").rename(file.with_suffix(".arrow"))


def _read(file: Path, parts: int) -> list[list[pa.RecordBatch]]:
    with pa.OSFile(str(file), "rb") as source:
        found = [list(pa.ipc.open_stream(source)) for _ in range(parts)]
    file.unlink()
    return found


def _folder() -> Path:
    """Returns Spark's folder for this application's files, which is deleted with it."""
    return Path(ENVIRONMENT.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0])
