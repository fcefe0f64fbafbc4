"""What the readers of a log share: how far a consumer has fetched, and batches of records that it cannot read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from lockstep.core.errors import BadData

if TYPE_CHECKING:
    from confluent_kafka import Message

INTERVAL_MS = 1_000
# librdkafka names a batch of records that it cannot read. It then goes on behind it, or at an offset that does not exist.
MALFORMED = {
    KafkaError._BAD_MSG,  # noqa: SLF001
    KafkaError._BAD_COMPRESSION,  # noqa: SLF001
    KafkaError._NOT_IMPLEMENTED,  # noqa: SLF001
}


class Fetched:
    """Follows a consumer's next offset to fetch, by librdkafka's statistics.

    Records alone do not tell it: an aborted or compacted stretch of a log shows none.
    """

    def __init__(self) -> None:
        self._next: dict[tuple[str, str], int] = {}
        self._has_moved = False

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the consumer to follow; the statistics come while it polls."""
        return {"statistics.interval.ms": INTERVAL_MS, "stats_cb": self._take}

    def has_moved(self) -> bool:
        """Tells if the consumer fetched past any offset since the last call."""
        moved, self._has_moved = self._has_moved, False
        return moved

    def _take(self, statistics: str) -> None:
        for topic, found in json.loads(statistics)["topics"].items():
            for partition, facts in found["partitions"].items():
                offset = facts["next_offset"]
                self._has_moved |= offset > self._next.get((topic, partition), offset)
                self._next[topic, partition] = offset


def refuse_malformed(message: Message, bootstrap: str) -> None:
    """Raises `BadData`, with partition and offset, where a message stands for a batch that cannot be read."""
    error = message.error()
    if error is not None and error.code() in MALFORMED:
        raise BadData(
            f"{message.topic()}-{message.partition()}: the batch of records at offset {message.offset()} cannot be read "
            f"from Kafka at {bootstrap}: {error.str()}",
            next_command=f"restore the partition from a replica, or lockstep skip NAME --to {message.partition()}:OFFSET "
            "--reason ...",
        )
