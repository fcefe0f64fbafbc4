"""Reads the offsets of a query of Spark's Structured Streaming from its checkpoint's folder."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from lockstep.core.changes.readers import (
    Reader,
    Standing,
    batches_in,
    last_committed,
    offsets_of_batch,
    offsets_text,
)
from lockstep.core.errors import Refusal
from lockstep.core.offsets import OffsetRange

if TYPE_CHECKING:
    from pathlib import Path

    from lockstep.core.offsets import TopicPartition
    from lockstep.core.pipeline.names import TopicSource


def standing_of_checkpoint(folder: Path, pipeline: str, source: TopicSource) -> Standing:
    """Returns the ends of the last batch that the query has committed.

    Raises `Refusal` while a batch behind it is planned: its rows may be in the query's sink or not.
    """
    planned, committed = _batches(folder / "offsets", pipeline), _batches(folder / "commits", pipeline)
    batch, unfinished = last_committed(planned, committed, str(folder), pipeline)
    offsets = _offsets(folder, batch, pipeline, source)
    if unfinished is not None:
        ends = _offsets(folder, unfinished, pipeline, source)
        ranges = [
            OffsetRange(at, offsets.get(at, 0), end) for at, end in sorted(ends.items()) if end > offsets.get(at, 0)
        ]
        raise Refusal(
            f"{folder}: its query has planned batch {unfinished} and not committed it, so rows of "
            f"{', '.join(map(str, ranges)) or 'no offsets'} may be in its sink or not",
            next_command="let the query end it, or if none is there: "
            f"lockstep adopt {pipeline} --at {offsets_text(offsets, named=not isinstance(source, str))}",
        )
    words = f"--spark-checkpoint {shlex.quote(str(folder))}"
    shown = f"the query of {folder}, which has committed batch {batch},"
    return Standing(Reader("spark-checkpoint", str(folder), words, shown, batch=batch), offsets)


def _batches(folder: Path, pipeline: str) -> list[int]:
    try:
        return batches_in([file.name for file in folder.iterdir()])
    except OSError as error:
        raise _unreadable(folder, error, pipeline) from None


def _offsets(folder: Path, batch: int, pipeline: str, source: TopicSource) -> dict[TopicPartition, int]:
    file = folder / "offsets" / str(batch)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(file, error, pipeline) from None
    return offsets_of_batch(text, str(file), pipeline, source)


def _unreadable(path: Path, error: OSError | UnicodeDecodeError, pipeline: str) -> Refusal:
    why = error.strerror if isinstance(error, OSError) else "it is no text"
    return Refusal(
        f"{path}: a checkpoint's folder has offsets/ and commits/, on this machine: {why}",
        next_command=f"lockstep adopt {pipeline} --spark-checkpoint DIR",
    )
