"""Aside: what a task's intake leaves for its outlet, two processes of one machine with a transform between them."""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence


def keep(task: str, lines: pa.RecordBatch, rows: Sequence[pa.RecordBatch]) -> None:
    """Leaves what one intake counted, and the rows that the transform is not to see; both may be empty."""
    file = _folder() / f"lockstep-{task}-{secrets.token_hex(8)}"
    with pa.OSFile(str(file.with_suffix(".new")), "wb") as out:
        for batches in ([lines], rows):
            with pa.ipc.new_stream(out, batches[0].schema if batches else pa.schema([])) as stream:
                for batch in batches:
                    stream.write_batch(batch)
    file.with_suffix(".new").rename(file.with_suffix(".arrow"))


def kept(task: str) -> list[tuple[pa.RecordBatch, list[pa.RecordBatch]]]:
    """What the task's intakes have left, one (lines, rows) for each that came to its end; the files are gone then."""
    found = []
    for file in sorted(_folder().glob(f"lockstep-{task}-*.arrow")):
        with pa.OSFile(str(file), "rb") as source:
            lines, rows = [list(pa.ipc.open_stream(source)) for _ in range(2)]
        file.unlink()
        found.append((lines[0], rows))
    return found


def _folder() -> Path:
    """Where Spark keeps this application's files, gone with it."""
    return Path(os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0])
