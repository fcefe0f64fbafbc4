"""Reads the options of Kafka's client that a variable holds, or names a file with."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lockstep.adapters.connection.options import content_of, options_of
from lockstep.core.errors import BadDefinition

if TYPE_CHECKING:
    from lockstep.core.kafka_options import KafkaOptions


def kafka_options_given(variable: str, given: str, where: str) -> KafkaOptions:
    """Returns the options of Kafka's client with the contents of their files. `where` says what to correct."""
    from lockstep.core.kafka_options import kafka_options

    options = options_of(variable, given)
    try:
        found = kafka_options(options)
    except BadDefinition as error:
        raise BadDefinition(error.message, next_command=f"{where}, then lockstep doctor") from None
    return found.inlined(partial(content_of, variable))
