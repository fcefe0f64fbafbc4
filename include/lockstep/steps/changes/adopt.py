"""Begins a pipeline where another reader stands: shows the offsets first, then begins at exactly those."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.adapters.kafka.topics import read_topics
from lockstep.adapters.postgres import READER, transaction
from lockstep.core.changes.adoption import Adoption, adoption_of
from lockstep.core.changes.readers import offsets_text
from lockstep.core.errors import Refusal
from lockstep.core.offsets import StreamRange
from lockstep.ledger.batch.streams import insert_topics, open_streams, open_streams_of_topics
from lockstep.ledger.changes import decisions, requests
from lockstep.steps.changes.decisions import deciding
from lockstep.steps.topics.open_topics import require_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from psycopg2.extensions import connection, cursor

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.changes.person import Person
    from lockstep.core.changes.readers import Standing
    from lockstep.core.offsets import TopicPartition
    from lockstep.core.pipeline.definition import Pipeline

# Longer than most consumers wait between two commits of offsets. A sink of Connect has members while it runs.
STANDSTILL_SECONDS = 6.0


@dataclass(frozen=True, slots=True)
class Source:
    """A reader to take over from, asked twice with `seconds` between. `given` has offsets for the other partitions."""

    look: Callable[[Sequence[TopicPartition]], Standing]
    given: Mapping[TopicPartition, int]
    seconds: float = STANDSTILL_SECONDS


@dataclass(frozen=True, slots=True)
class Adopted:
    """The decision of an adoption, and the person. `changed` is False if an earlier call has decided the same."""

    decision: int
    who: str
    shown: Adoption | None = None

    @property
    def changed(self) -> bool:
        """Returns True if this call has decided it."""
        return self.shown is not None


def preview_adoption(conn: connection, broker: Broker, pipeline: Pipeline, source: Source) -> Adoption:
    """Returns where the pipeline would begin.

    Raises `Refusal` if it has planned already, and while the reader still moves.
    """
    seen = read_topics(broker, pipeline)
    with transaction(conn, READER) as cur:
        _refuse_planned(cur, pipeline)
        require_topics(cur, pipeline, seen)
    partitions = sorted(seen.partitions)
    before = source.look(partitions)
    if before.reader.words:
        time.sleep(source.seconds)
        now = source.look(partitions)
        for partition in sorted(before.offsets.keys() | now.offsets.keys()):
            was, is_now = before.offsets.get(partition), now.offsets.get(partition)
            if was != is_now:
                raise Refusal(
                    f"{partition}: {now.reader.shown} still moves, from {was} to {is_now} in "
                    f"{source.seconds:.0f} s: stop what reads there",
                    next_command=f"lockstep adopt {pipeline.name} {now.reader.words}",
                )
    # The log's bounds are read after the reader's offsets, so that they are never older.
    return adoption_of(pipeline.name, before, source.given, read_topics(broker, pipeline))


def adopt(
    conn: connection,
    broker: Broker,
    pipeline: Pipeline,
    source: Source,
    digest: str,
    accepted: Collection[TopicPartition],
    person: Person,
) -> Adopted:
    """Opens the pipeline's streams where the reader stands, as shown under this digest, and records the decision.

    Offsets that are lost must be accepted by partition. Raises `Refusal` if anything moved since. A second call of the
    same digest changes nothing.
    """
    name = pipeline.name
    with transaction(conn, READER) as cur:
        earlier = decisions.adoption(cur, name)
    if earlier and earlier.digest == digest:
        return Adopted(earlier.decision_id, earlier.who)
    shown = preview_adoption(conn, broker, pipeline, source)
    if shown.digest != digest:
        raise Refusal(
            f"{name}: {digest} is not what is shown now, which is {shown.digest}: reader, log or --at is another than it was",
            next_command=f"lockstep adopt {name} {shown.words}",
        )
    shown.require_accepted(accepted)
    with deciding(conn, name) as cur:
        _refuse_planned(cur, pipeline)
        decision = decisions.record(cur, name, "adopt", person, shown.decision())
        if not isinstance(pipeline.topic, str):
            insert_topics(cur, name, person.who, f"decision {decision} begins where a reader stands", shown.starts)
        open_streams_of_topics(cur, name, [(view, shown.starts[view.topic], False) for view in shown.view.topics])
        streams = {stream.topic_partition: stream for stream in open_streams(cur, name)}
        for lost in shown.lost:
            stream = streams[lost.topic_partition]
            decisions.record_loss(cur, name, person, StreamRange(stream.stream_id, lost), stream.position)
    return Adopted(decision, person.who, shown)


def _refuse_planned(cur: cursor, pipeline: Pipeline) -> None:
    name = pipeline.name
    if streams := requests.every_stream(cur, name):
        named = not isinstance(pipeline.topic, str)
        at = offsets_text({stream.topic_partition: stream.position for stream in streams}, named=named)
        raise Refusal(
            f"{name}: it has planned already, and stands at {at}: only a pipeline without a plan takes over",
            next_command=f"lockstep status {name}",
        )
