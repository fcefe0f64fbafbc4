"""Looks for offsets that a pipeline has read and its copy cannot read. Writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.kafka.topics import read_topics
from lockstep.adapters.postgres import READER, transaction
from lockstep.core.changes.clone import gone
from lockstep.core.offsets import TopicView
from lockstep.ledger.changes import requests

if TYPE_CHECKING:
    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.changes.clone import Gone
    from lockstep.core.pipeline.definition import Pipeline


def gone_from_log(conn: connection, broker: Broker, pipeline: Pipeline) -> list[Gone]:
    """Returns the offsets that the pipeline has passed and the log holds no more, by partition."""
    with transaction(conn, READER) as cur:
        streams = requests.every_stream(cur, pipeline.name)
    if not streams:
        return []
    view = read_topics(broker, pipeline)
    there = {each.topic: each for each in view.topics}
    topics = sorted({stream.topic_partition.topic for stream in streams})
    return [each for t in topics for each in gone(streams, there.get(t) or TopicView(view.cluster_id, t, "", {}))]
