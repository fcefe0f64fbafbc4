"""Folds a topic as any consumer does that knows nothing of Lockstep: it keeps each key's newest value."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, TopicPartition

from lockstep.core.errors import Unreachable
from lockstep.dev.records.topics import PATIENCE_SECONDS, client

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NUMBER_AS_TEXT = re.compile(r"-?\d+(?:\.\d+)?")
UNSENT_COLUMNS = ("_stream", "_offset", "_ordinal", "_batch")  # columns of the table that are not sent


@dataclass(slots=True)
class FoldedTopic:
    """The number of records that were read, and the newest value of each key. A key with a tombstone has none."""

    records: int = 0
    rows: dict[bytes, dict[str, Any]] = field(default_factory=dict)

    def take(self, key: bytes, value: bytes | None) -> None:
        """Puts a record's value in the place of its key's older one."""
        self.records += 1
        if value is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = json.loads(value, parse_float=Decimal)


def fold_topic(bootstrap: str, topic: str) -> FoldedTopic:
    """Reads what is committed of a topic, from its beginning to its end, and folds it."""
    options = {"group.id": "demo", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer(client(bootstrap) | options | {"auto.offset.reset": "earliest", "enable.auto.commit": False})
    folded = FoldedTopic()
    try:
        partitions = consumer.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        ended: set[int] = set()
        while len(ended) < len(partitions):
            message = consumer.poll(PATIENCE_SECONDS)
            if message is None:
                raise Unreachable(
                    f"Kafka at {bootstrap} does not answer for {topic}", next_command="lockstep dev status"
                )
            if message.error():
                ended.add(message.partition())
            else:
                folded.take(message.key(), message.value())
    finally:
        consumer.close()
    return folded


def same_rows(sent: Iterable[Mapping[str, Any]], rows: Iterable[Mapping[str, Any]]) -> bool:
    """Returns True if sent values are the table's rows. A number or a moment may be written in two ways."""
    return sorted(map(_comparable, sent)) == sorted(map(_comparable, rows))


def _comparable(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    return sorted((name, str(_plain(value))) for name, value in row.items() if name not in UNSENT_COLUMNS)


def _plain(value: Any) -> Any:
    """Returns numbers and moments as such, and anything else as it is. A number of any length stands as text in JSON."""
    if isinstance(value, str) and NUMBER_AS_TEXT.fullmatch(value):
        value = Decimal(value)
    if isinstance(value, int | float | Decimal):
        return Decimal(str(value)).normalize() if not isinstance(value, bool) else value
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return value
