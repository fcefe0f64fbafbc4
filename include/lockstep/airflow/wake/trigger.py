"""Watches a pipeline's topics from Airflow's triggerer, and wakes a run. The ledger decides what the run does."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from lockstep.adapters.airflow.connections import kafka_variables
from lockstep.core.errors import Refusal
from lockstep.core.fleet.waking import WakingFacts, is_to_wake
from lockstep.core.pipeline.names import chosen_topics, group_of, source_of
from lockstep.core.settings import KAFKA_OPTIONS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.pipeline.names import TopicSource

log = logging.getLogger(__name__)


class RecordsTrigger(BaseEventTrigger):
    """A trigger that fires when records wait. It holds the id of a connection, and no password.

    `topic` is the topic of the definition's document. It looks every `seconds`.
    """

    def __init__(self, pipeline: str, topic: Any, kafka_conn_id: str, seconds: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.pipeline = pipeline
        self.topic = topic
        self.kafka_conn_id = kafka_conn_id
        self.seconds = seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Returns the class, and the values that make another trigger like this one."""
        kind = type(self)
        values = {name: getattr(self, name) for name in ("pipeline", "topic", "kafka_conn_id", "seconds")}
        return f"{kind.__module__}.{kind.__qualname__}", values

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yields an event for each wake-up. A broker that is away is asked again."""
        woken: WakingFacts | None = None
        seen: WakingFacts | None = None
        at = 0.0
        while True:
            try:
                variables = await sync_to_async(kafka_variables)(self.kafka_conn_id)  # a password may have changed
                seen = await asyncio.to_thread(look_for_records, variables, self.pipeline, source_of(self.topic), seen)
            except Refusal as refusal:
                log.warning("%s: %s", self.pipeline, refusal)
            else:
                if is_to_wake(seen, woken, time.monotonic() - at):
                    woken, at = seen, time.monotonic()
                    event = {"pipeline": self.pipeline, "waiting": seen.waiting}
                    yield TriggerEvent(event)  # type: ignore[no-untyped-call]
            await asyncio.sleep(self.seconds)


def look_for_records(
    variables: dict[str, str], pipeline: str, source: TopicSource, seen: WakingFacts | None
) -> WakingFacts:
    """Returns the stable ends, and the positions that the pipeline has shown as a consumer group.

    Does not ask for the positions again while the ends stay as they are and nothing waits.
    """
    from lockstep.adapters.kafka.group import mirrored

    broker = _broker(variables["LOCKSTEP_KAFKA"], variables[KAFKA_OPTIONS])
    view = broker.topic_views(chosen_topics(source, broker.topic_names), only_readable=True)
    ends = {where: view[where].stable_end for where in view.partitions}
    if seen and seen.ends == ends and not seen.waiting:
        return seen
    try:
        positions = mirrored(broker, group_of(pipeline), ends) if ends else {}
    except Refusal as refusal:  # the login may not read the group
        log.info("%s: %s", pipeline, refusal)
        positions = {}
    return WakingFacts(ends, positions)


@lru_cache(maxsize=16)
def _broker(servers: str, options: str) -> Broker:
    """Returns the client of a cluster, one for all triggers of this process that log in alike."""
    from lockstep.adapters.connection.options import kafka_options_given
    from lockstep.adapters.kafka.broker import Broker

    return Broker(
        servers, kafka_options_given(KAFKA_OPTIONS, options, "correct the extra of Airflow's Kafka connection")
    )
