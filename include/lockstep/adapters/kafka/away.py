"""Says why a broker could not be reached, by the newest error of its connections."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError

from lockstep.core.errors import Unreachable

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from lockstep.core.kafka_options import KafkaOptions

OF_A_CONNECTION = frozenset(
    {KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._AUTHENTICATION, KafkaError._SSL}  # noqa: SLF001 - their public names
)
_WHERE = re.compile(r"^(?:\w+://)?(\S+?)(?:/\w+)?: ")
_WHEN = re.compile(r" \(after \d+ms in state \w+(?:, \d+ identical error\(s\) suppressed)?\)\Z")


class Connections:
    """Remembers the newest error of a client's connections. The client calls it, as its `error_cb`."""

    def __init__(self) -> None:
        self._newest: str | None = None

    def __call__(self, error: KafkaError) -> None:
        """Keeps the error if it is one of a connection, without the time at which it came."""
        if error.code() in OF_A_CONNECTION:
            self._newest = _WHERE.sub(r"\1: ", _WHEN.sub("", error.str()))

    def away(self, bootstrap: str, client: AdminClient | None, error: KafkaError, options: KafkaOptions) -> Unreachable:
        """Returns the error of a broker that did not answer a call of this client."""
        if client is not None:
            client.poll(0)  # calls back with what it has kept
        locked = "security.protocol" in options.names
        what = "does not answer, or does not let us in" if locked else "does not answer"
        look = "look at LOCKSTEP_KAFKA_CONFIG" if locked else "look at LOCKSTEP_KAFKA"
        return Unreachable(
            f"Kafka at {bootstrap} {what}: {options.hidden(self._newest or error.str())}",
            next_command=f"{look}; for the embedded broker: lockstep dev status",
        )
