"""Moves a pipeline to a copy of its topic: shows the offsets first, then goes on at exactly those."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import READER, transaction
from lockstep.core.changes.moving import Move
from lockstep.core.errors import PositionMoved, Refusal
from lockstep.core.pipeline.names import topic_words
from lockstep.core.states import Lane
from lockstep.ledger.batch.plan import unfinished_batches
from lockstep.ledger.batch.streams import open_streams, retire_stream
from lockstep.ledger.changes import decisions, erasures, moves, requests
from lockstep.steps.batch.one_log import require_one_log
from lockstep.steps.changes.decisions import deciding
from lockstep.steps.topics.copied import goes_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import connection, cursor

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.changes.person import Person
    from lockstep.core.offsets import Stream, TopicView
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.steps.topics.copied import CopiedTopic

PARTITIONS_AT_ONCE = 8  # each is read by consumers of its own, which wait for the broker most of the time


@dataclass(frozen=True, slots=True)
class Moved:
    """The decision of a move, and the person. `shown` is None if an earlier call has decided the same."""

    decision: int
    who: str
    shown: Move | None = None


def preview_move(conn: connection, broker: Broker, pipeline: Pipeline, copied: CopiedTopic) -> Move:
    """Returns where each stream goes on in the copy, proved by the records before its position.

    `broker` has the old topic. Raises `Refusal` if a place is not proved, or if the copy lacks records behind a
    position. Waits a moment for a copy that is behind.
    """
    with transaction(conn, READER) as cur:
        streams = _streams(cur, pipeline, copied)
        _require_rest(cur, pipeline.name, copied)
        skipped = moves.skipped_offsets(cur, [stream.stream_id for stream in streams])
    was = streams[0].topic_partition.topic
    view, there = broker.view(was), copied.broker.view(copied.topic)
    if view.log_of(was) != streams[0].log:
        raise Refusal(
            f"{pipeline.name}: {was} of cluster {view.cluster_id} is not the log that it has read, which is of cluster "
            f"{streams[0].cluster_id}, and that one proves the place",
            next_command=f"let LOCKSTEP_KAFKA lead to the old cluster, then {copied.again(pipeline.name)}",
        )
    if there.log_of(copied.topic) == streams[0].log:
        raise Refusal(f"{pipeline.name}: it reads {copied.topic} already", next_command=f"lockstep run {pipeline.name}")
    _require_same_partitions(pipeline, streams, view, there)
    require_one_log(conn, broker, pipeline, view)
    compacts = broker.compacts(was) or copied.broker.compacts(copied.topic)
    look = partial(goes_on, broker, view=view, copied=copied, name=pipeline.name, compacts=compacts)
    with ThreadPoolExecutor(PARTITIONS_AT_ONCE) as each:
        return Move(pipeline.name, there, tuple(each.map(look, streams)), copied.words, skipped)


def move(
    conn: connection, broker: Broker, pipeline: Pipeline, copied: CopiedTopic, digest: str, person: Person
) -> Moved:
    """Closes the streams and opens their successors in the copy, as shown under this digest, in one transaction.

    Raises `Refusal` if anything moved since. A second call of the same digest changes nothing.
    """
    name = pipeline.name
    with transaction(conn, READER) as cur:
        earlier = moves.last_move(cur, name)
    if earlier and earlier.digest == digest:
        return Moved(earlier.decision_id, earlier.who)
    shown = preview_move(conn, broker, pipeline, copied)
    if shown.digest != digest:
        raise Refusal(
            f"{name}: {digest} is not what is shown now, which is {shown.digest}: a position or a log is another than it was",
            next_command=copied.again(pipeline.name),
        )
    with deciding(conn, name) as cur:
        _require_rest(cur, name, copied)
        ids = [stream.stream_id for stream in shown.streams]
        locked = decisions.lock_streams(cur, ids)
        if locked != {s.stream_id: s.position for s in shown.streams} or set(open_streams(cur, name)) != set(
            shown.streams
        ):
            raise PositionMoved(
                f"{name}: its streams moved while the brokers were asked; nothing was changed",
                next_command=copied.again(pipeline.name),
            )
        decision = decisions.record(cur, name, "move", person, shown.decision())
        for stream_id in ids:
            retire_stream(cur, stream_id)
        moves.open_successors(cur, shown)
    return Moved(decision, person.who, shown)


def _streams(cur: cursor, pipeline: Pipeline, copied: CopiedTopic) -> tuple[Stream, ...]:
    """Returns the open streams, which are of one topic. Refuses another definition than the old or the new one."""
    name, streams = pipeline.name, open_streams(cur, pipeline.name)
    topics = sorted({stream.topic_partition.topic for stream in streams})
    if len(topics) > 1 or not isinstance(pipeline.topic, str):
        raise Refusal(
            f"{name}: it reads {', '.join(topics) or topic_words(pipeline.topic)}, and a move takes a pipeline of one topic",
            next_command=f"lockstep status {name}",
        )
    if not topics:
        raise Refusal(
            f"{name}: it has not planned yet, so there is nothing to move",
            next_command=f"say topic={copied.topic!r} in its definition, then lockstep run {name}",
        )
    if pipeline.topic not in {topics[0], copied.topic}:
        raise Refusal(
            f"{name}: it reads {topics[0]}, and its definition says {pipeline.topic}, which is neither that nor {copied.topic}",
            next_command=f"put it back, then {copied.again(pipeline.name)}",
        )
    if moves.has_own_line(cur, [stream.stream_id for stream in streams], copied.topic):
        raise Refusal(
            f"{name}: it has read {copied.topic} beside {topics[0]}, so that is no copy of it",
            next_command=f"lockstep new ANOTHER_NAME --topic {copied.topic}",
        )
    return streams


def _require_rest(cur: cursor, name: str, copied: CopiedTopic) -> None:
    """Refuses while a batch or a request is not finished, or erased records wait. Says how to finish it."""
    for batch in unfinished_batches(cur, name, None):
        on = _go_on_with(name, batch.lane, batch.request_id)
        end = f"lockstep abandon {batch.batch_id} --reason ..."
        raise Refusal(
            f"{name}: batch {batch.batch_id} is planned and not committed, and it reads the old topic",
            next_command=end if batch.is_preview else f"{on}, or {end}",
        )
    for request in requests.open_requests(cur, name):
        raise Refusal(
            f"{name}: request {request.request_id} to {request.lane} is not finished, and it is about the old topic",
            next_command=_go_on_with(name, Lane(request.lane), request.request_id),
        )
    if at := erasures.waiting_erasure(cur, name):
        raise Refusal(
            f"{name}: an erasure keeps records of {at.topic}-{at.partition} out up to offset {at.until_offset}, and the "
            f"position is {at.position}: in {copied.topic} nothing would keep them out",
            next_command=f"lockstep run {name} --until-idle, then {copied.again(name)}",
        )


def _go_on_with(name: str, lane: Lane, request: int | None) -> str:
    if request is None:
        return f"lockstep run {name}"
    return (
        f"lockstep fill {name} --request {request}"
        if lane == Lane.FILL
        else f"lockstep replay {name} --request {request}"
    )


def _require_same_partitions(pipeline: Pipeline, streams: Sequence[Stream], view: TopicView, there: TopicView) -> None:
    read = {stream.partition for stream in streams}
    if new := sorted(view.bounds.keys() - read):
        raise Refusal(
            f"{view.topic}-{new[0]}: the partition is new, and nothing has planned it yet",
            next_command=f"lockstep run {pipeline.name}",
        )
    if read != there.bounds.keys():
        raise Refusal(
            f"{pipeline.name}: {view.topic} has {len(read)} partitions and {there.topic} {len(there.bounds)}: a record may be "
            "in any of them",
            next_command=f"copy into {len(read)} partitions, or lockstep new ANOTHER_NAME --topic {there.topic}",
        )
