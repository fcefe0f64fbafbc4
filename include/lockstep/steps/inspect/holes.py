"""Lists the stretches of offsets that no batch covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.kafka.topics import read_topics
from lockstep.adapters.postgres import READER, transaction
from lockstep.ledger.batch.archived import with_archive
from lockstep.ledger.views import reading
from lockstep.steps.inspect.warn import bounds_of

if TYPE_CHECKING:
    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.ledger.views.reading import Document


def holes_of_ledger(conn: connection, pipeline: str) -> list[Document]:
    """Returns every stretch that no batch covers since the stream's start, for a pipeline without a folder."""
    with transaction(conn, READER) as cur:
        return _without_streams(reading.read_holes(cur, pipeline, {}))


def holes(conn: connection, broker: Broker, pipeline: Pipeline) -> list[Document]:
    """Returns every stretch that no batch covers, with its kind. If a person decided it, it names who and why."""
    with transaction(conn, READER) as cur:
        streams = reading.stream_progress(cur, pipeline.name)
    view = read_topics(broker, pipeline)
    with transaction(conn, READER) as cur:
        view = with_archive(cur, pipeline, view)
        starts = {row.stream_id: found.whole_from for row in streams if (found := bounds_of(row, view))}
        return _without_streams(reading.read_holes(cur, pipeline.name, starts))


def _without_streams(found: list[Document]) -> list[Document]:
    return [{name: value for name, value in hole.items() if name != "stream_id"} for hole in found]
