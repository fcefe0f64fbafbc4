"""Repeats questions to partitions that are without a leader for a moment."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    K = TypeVar("K")

WITHOUT = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,  # our knowledge of the leader is older than the broker's,
    KafkaError.UNKNOWN_LEADER_EPOCH,  # or newer, as after a restart
)
SECONDS, PAUSE = 5.0, 0.2


def settled_answers(ask: Callable[[], list[dict[K, Any]]]) -> list[dict[K, Any]]:
    """Returns each partition's answers, all with an offset.

    Raises `KafkaException` if a partition has no leader for `SECONDS`.
    """
    until = time.monotonic() + SECONDS
    while True:
        try:
            found = ask()
            if any(each.offset == OFFSET_INVALID for answers in found for each in answers.values()):
                raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))  # noqa: TRY301 - said by another word
        except KafkaException as error:
            if error.args[0].code() not in WITHOUT or time.monotonic() > until:
                raise
            time.sleep(PAUSE)
        else:
            return found
