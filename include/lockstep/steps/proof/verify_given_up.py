"""Compares what was accepted as lost with the log: lost offsets cannot be read any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.offsets import TopicPartition
from lockstep.core.proof.verification import PromiseCheck, Wrong
from lockstep.ledger.proof.given_up import lost_stretches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.offsets import LogView


def lost_check(cur: cursor, view: LogView, streams: Sequence[Any]) -> PromiseCheck:
    """Names lost offsets of these streams that their log, or the archive, still holds."""
    wrong, known, looked_at = Wrong(), {stream.stream_id: stream for stream in streams}, 0
    for lost in lost_stretches(cur, list(known)):
        stream = known[lost.stream_id]
        bounds = view[TopicPartition(stream.topic, stream.partition)]
        for begin, until in bounds.held_within(lost.from_offset, lost.until_offset):
            wrong.add(f"{stream.topic}-{stream.partition}: offsets [{begin}, {until}) are lost, and can still be read")
        looked_at += lost.until_offset - lost.from_offset
    return wrong.check("lost offsets cannot be read any more", told=f"{looked_at} lost offsets")
