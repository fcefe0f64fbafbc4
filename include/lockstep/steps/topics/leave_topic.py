"""Leaves a topic of several: its streams are closed for good, and the others go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.errors import PositionMoved, Refusal
from lockstep.core.pipeline.names import reads_topic
from lockstep.ledger.batch.streams import open_streams, retire_stream
from lockstep.ledger.changes import decisions
from lockstep.ledger.changes.requests import close_requests_of
from lockstep.steps.changes.decisions import deciding, lock_and_abandon

if TYPE_CHECKING:
    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.changes.person import Person
    from lockstep.core.offsets import Stream
    from lockstep.core.pipeline.definition import Pipeline

READINGS_OF_A_GONE_TOPIC = 3  # one stale broker's answer is no proof (T6)


def is_left(broker: Broker, pipeline: Pipeline, topic: str) -> bool:
    """Returns True for a topic that the definition does not name, or that is gone, of a pipeline of several.

    A single topic that is gone is no topic of several. The broker's own refusal names it.
    """
    if not reads_topic(pipeline.topic, topic):
        return True
    if isinstance(pipeline.topic, str):
        return False
    return all(broker.topic_views([topic]).log_of(topic) is None for _ in range(READINGS_OF_A_GONE_TOPIC))


def leave_topic(
    conn: connection, pipeline: Pipeline, topic: str, person: Person
) -> tuple[tuple[tuple[Stream, str], ...], tuple[int, ...]]:
    """Closes the topic's streams, and abandons batches that read it. Rows that came from it stay.

    Returns the closed streams with the reason, and the abandoned batches. Refuses the only topic that is left.
    """
    why = "the topic is gone" if reads_topic(pipeline.topic, topic) else "the definition does not name the topic"
    with deciding(conn, pipeline.name) as cur:
        every = open_streams(cur, pipeline.name)
        own = [stream for stream in every if stream.topic_partition.topic == topic]
        if not own:
            known = ", ".join(sorted({stream.topic_partition.topic for stream in every})) or "none"
            raise Refusal(
                f"{pipeline.name}: it has no open stream of topic {topic}; there are: {known}",
                next_command=f"lockstep status {pipeline.name}",
            )
        if len(own) == len(every):
            raise Refusal(
                f"{pipeline.name}: {topic} is its only topic, and a pipeline that leaves it reads nothing",
                next_command=f"put it back, or lockstep forget {pipeline.name} --reason ...",
            )
        ids = [stream.stream_id for stream in own]
        ever = decisions.streams_of_partitions(cur, pipeline.name, topic, {stream.partition for stream in own})
        abandoned = lock_and_abandon(cur, decisions.claiming(cur, ever), person)
        if decisions.lock_streams(cur, ids) != {stream.stream_id: stream.position for stream in own}:
            raise PositionMoved(
                f"{pipeline.name}: its streams moved meanwhile; nothing was changed",
                next_command=f"lockstep status {pipeline.name}, then again",
            )
        decisions.release_claims(cur, abandoned)
        for stream_id in ids:
            retire_stream(cur, stream_id)
        close_requests_of(cur, streams=ever)
        detail = {
            "left": topic,
            "retired": [{"stream_id": s.stream_id, "position": s.position, "why": why} for s in own],
            "opened": [],
            "abandoned": abandoned,
        }
        decisions.record(cur, pipeline.name, "retire", person, detail)
    return tuple((stream, why) for stream in own), tuple(abandoned)
