"""Defines the formats whose schemas are always in a registry: Avro and Protobuf."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.core.errors import BadDefinition
from lockstep.core.formats.fields import NamedFields, refuse_bad_rest, refuse_no_column

if TYPE_CHECKING:
    from lockstep.core.pipeline.definition import Json, Pipeline
    from lockstep.core.registry import Registry

MAGIC, HEAD_BYTES = b"\x00", 5  # of Confluent's wire format: a zero byte, then the schema's id
EVERY = 2**31  # schema ids, for a reader that meets those of many tasks
MESSAGE_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*\Z")


@dataclass(frozen=True, slots=True)
class Avro(NamedFields):
    """Avro in Confluent's wire format, read by the schema it was written with. Columns are declared as for `Json`.

    `key` and `rest` are as for `Json`. With `subject`, a record is a reject if its schema was not registered under it.
    As the `value` of a `Topic` it has no schema, because the table's columns are the schema.
    """

    schema: str = ""
    key: str | None = None
    subject: str | None = None
    rest: str | None = None

    def __post_init__(self) -> None:
        refuse_bad_subject(self.subject)
        if self.is_of_the_table:
            return
        refuse_no_column("format.key", self.key, self.declared)
        refuse_bad_rest(self.rest, self.schema)

    @property
    def is_of_the_table(self) -> bool:
        """Returns True if nothing but a subject is said, as for a topic's values."""
        return (self.schema, self.key, self.rest) == ("", None, None)


@dataclass(frozen=True, slots=True)
class Protobuf(NamedFields):
    """Protobuf in Confluent's wire format, read by the schema it was written with. Columns are declared as for `Json`.

    With `message`, such as `shop.Order`, a record is a reject if it is another message of its schema. `subject`, `key`
    and `rest` are as for `Avro`.
    """

    schema: str
    message: str | None = None
    subject: str | None = None
    key: str | None = None
    rest: str | None = None

    def __post_init__(self) -> None:
        if self.message is not None and not (isinstance(self.message, str) and MESSAGE_NAME.match(self.message)):
            raise BadDefinition(f"format.message is {self.message!r}: it must be a message's full name, as shop.Order")
        refuse_bad_subject(self.subject)
        refuse_no_column("format.key", self.key, self.declared)
        refuse_bad_rest(self.rest, self.schema)


def refuse_bad_subject(subject: str | None) -> None:
    """Refuses a subject that is no name."""
    if subject is not None and (not isinstance(subject, str) or not subject):
        raise BadDefinition(f"format.subject is {subject!r}: it must be a subject's name")


def require_registry(pipeline: Pipeline, wire: Avro | Protobuf | Json, registry: Registry | None) -> Registry:
    """Returns the registry, or raises `BadDefinition` if none is set."""
    if registry is None:
        raise BadDefinition(
            f"{pipeline.name}: its format is {type(wire).__name__}, and LOCKSTEP_REGISTRY is not set",
            next_command="export LOCKSTEP_REGISTRY=http://host:8081",
        )
    return registry
