"""Chooses how the values of a feed's topic are encoded, and registers their schema."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.feed.avro import schema_of_feed
from lockstep.core.feed.feeds import feed_name
from lockstep.core.pipeline.targets import message_key, topics_of
from lockstep.core.registry import NAME_REGISTRY
from lockstep.ledger.feed.outgoing import Outgoing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from psycopg2.extensions import connection

    from lockstep.core.feed.feeds import Topic
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.registry import Registry
    from lockstep.formats.avro.schemas import Schemas


def with_encoder(outgoing: Outgoing, topic: Topic, pipeline: str, place: Callable[[], Registry | None]) -> Outgoing:
    """Returns the feed with the encoder that its topic's values need. JSON needs none.

    Raises `Refusal` if the schema is not registered yet, or if no registry is named.
    """
    if topic.value is None:
        return outgoing
    from lockstep.formats.avro.encoding import Encoder  # noqa: PLC0415 - the registry's client is slow to import

    schema = _schema(outgoing, topic, pipeline)
    schema_id = _known(topic, pipeline, place).id_of(topic.subject, schema)
    if schema_id is None:
        raise Refusal(
            f"{pipeline}: the columns of {outgoing.target} are not the schema that subject {topic.subject} has",
            next_command=f"lockstep migrate {pipeline}",
        )
    return replace(outgoing, encoder=Encoder(schema_id, schema, outgoing.written))


def comparable(value: bytes | None, topic: Topic, pipeline: str, place: Callable[[], Registry | None]) -> Any:
    """Returns a topic's value in a form that compares: columns by name, without nulls. A column may have been added since.

    Returns the bytes themselves if they are no such value.
    """
    if value is None:
        return None
    if topic.value is None:
        try:
            return _without_nulls(json.loads(value, parse_float=Decimal))
        except (ValueError, RecursionError):  # a document of JSON may be nested too deep
            return value
    from lockstep.formats.avro.encoding import read_value  # noqa: PLC0415 - the registry's client is slow to import

    try:
        return _without_nulls(read_value(value, _known(topic, pipeline, place)))
    except ValueError:
        return value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return value


def register_schemas(conn: connection, pipeline: Pipeline, place: Callable[[], Registry | None]) -> None:
    """Registers the schema of every topic whose values are Avro.

    Raises `BadDefinition`, with the column, if a subject's earlier schemas are not compatible with it.
    """
    for target, topic in topics_of(pipeline.targets):
        if topic.value is None:
            continue
        with transaction(conn, READER) as cur:
            outgoing = Outgoing.of(cur, target.table, topic.shape, message_key(target))
        _register(outgoing, topic, pipeline.name, place)


def _register(outgoing: Outgoing, topic: Topic, pipeline: str, place: Callable[[], Registry | None]) -> None:
    schema = _schema(outgoing, topic, pipeline)
    try:
        _known(topic, pipeline, place).register(topic.subject, schema)
    except BadDefinition as refused:
        raise BadDefinition(f"{pipeline}: {refused.message}", next_command=refused.next_command) from None


def _schema(outgoing: Outgoing, topic: Topic, pipeline: str) -> Mapping[str, Any]:
    try:
        return schema_of_feed(feed_name(outgoing.target), outgoing.written, topic.shape)
    except BadDefinition as refused:
        raise BadDefinition(
            f"{pipeline}: target.feed: to: {outgoing.target}: {refused.message}",
            next_command=f"rename the column, or leave value out, then lockstep migrate {pipeline}",
        ) from None


def _known(topic: Topic, pipeline: str, place: Callable[[], Registry | None]) -> Schemas:
    registry = place()
    if registry is None:
        raise Refusal(
            f"{pipeline}: values of {topic.name} are Avro, and LOCKSTEP_REGISTRY names no schema registry",
            next_command=NAME_REGISTRY,
        )
    from lockstep.formats.avro.schemas import schemas  # noqa: PLC0415 - the same

    return schemas(registry)
