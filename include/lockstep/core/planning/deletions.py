"""Computes how long each deletion of a key must be remembered, so that no older record brings the key back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockstep.core.offsets import TopicView

NEWEST_OFFSET = 2**63 - 1


@dataclass(frozen=True, slots=True, order=True)
class LoggedStream:
    """A stream with the log that it was read from."""

    stream_id: int
    topic: str
    partition: int
    cluster_id: str
    topic_id: str
    epoch: int
    position: int
    retired: bool


def forgettable_below(stream: LoggedStream, streams: Iterable[LoggedStream], view: TopicView) -> int:
    """Returns the offset below which deletions of the stream may be forgotten, or 0 if none may.

    Older records of a key lie below the deletion in its stream, or in its topic's streams of older epochs. All of them
    must be gone from the log. A view of another log than that of the topic's open streams proves nothing.
    """
    every = [each for each in streams if each.topic == stream.topic]
    if any(not s.retired and not _is_of(s, view) for s in every):
        return 0
    for older in every:
        if older.epoch < stream.epoch and _is_of(older, view) and _log_start(older, view) < older.position:
            return 0
    return _log_start(stream, view) if _is_of(stream, view) else NEWEST_OFFSET


def _is_of(stream: LoggedStream, view: TopicView) -> bool:
    return (stream.cluster_id, stream.topic_id) == (view.cluster_id, view.topic_id)


def _log_start(stream: LoggedStream, view: TopicView) -> int:
    bounds = view.bounds.get(stream.partition)
    return bounds.log_start if bounds else 0
