"""Compares with the log what was accepted as lost, and where each log was begun.

Compares how far upkeep says it has come, too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lockstep.core.offsets import TopicPartition
from lockstep.core.proof.verification import PromiseCheck, Wrong
from lockstep.ledger.proof.given_up import lost_stretches
from lockstep.ledger.proof.streams import beginnings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg2.extensions import cursor

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.offsets import LogView
    from lockstep.core.pipeline.definition import Pipeline

STRETCH = re.compile(r"\[(\d+),(\d+)\)")


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


def begin_check(cur: cursor, broker: Broker, pipeline: Pipeline, view: LogView, streams: Sequence[Any]) -> PromiseCheck:
    """Names offsets below the first stream of a log that the log holds and no batch has read.

    Leaves out what a decision, or the start of the definition, passes over. Names upkeep that has passed the log's
    start, too. Asks the broker again before it names anything: the log may have moved on since `view`.
    """
    wrong = Wrong()
    begun = beginnings(cur, [stream.stream_id for stream in streams], str(pipeline.start))
    for row in begun:
        at = TopicPartition(row.topic, row.partition)
        if not (here := view.get(at)) or not any(_late(pipeline, view, row, here.log_start)):
            continue
        if now := broker.view(row.topic).get(at):
            for what in _late(pipeline, view, row, now.log_start):
                wrong.add(f"{at}: stream {row.stream_id} {what}")
    explained = sum(row.unread is None for row in begun)
    told = f"{len(begun)} logs; of {explained} a decision or the definition says where"
    return wrong.check("each log is read from its start", told=told)


def _late(pipeline: Pipeline, view: LogView, row: Any, log_start: int) -> Iterator[str]:
    named = f"{pipeline.name}{view.option(row.topic)}"
    for low, high in STRETCH.findall(row.unread or ""):
        begin, until = max(int(low), log_start), int(high)
        if until > log_start:
            following = f"lockstep batches {pipeline.name}"
            if begin >= row.before:
                following = f"lockstep fill {named} --from {row.partition}:{begin} --until {row.partition}:{until}"
            yield (
                f"begins at offset {row.start_offset}: [{begin}, {until}) can be read, and no decision leaves them out; next: "
                f"{following}"
            )
    if row.upkept_below > log_start:
        yield (
            f"may forget deletions below offset {row.upkept_below}, and the log holds [{log_start}, {row.upkept_below}); next: "
            f"lockstep replay {named} --from {row.partition}:{log_start} --until {row.partition}:{row.upkept_below}"
        )
