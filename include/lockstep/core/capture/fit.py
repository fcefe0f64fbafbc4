"""Refuses pipelines of change records whose topic, targets or guarantee cannot keep a copy of the source."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lockstep.core.capture.debezium import BY_SOURCE, Debezium
from lockstep.core.errors import BadDefinition
from lockstep.core.lake.iceberg import Iceberg
from lockstep.core.pipeline.guarantees import PerBatch, PerPartition
from lockstep.core.pipeline.targets import Keyed, Upsert
from lockstep.core.records import SOURCE_ORDER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.core.pipeline.formats import Format
    from lockstep.core.pipeline.guarantees import Guarantee
    from lockstep.core.pipeline.names import TopicSource
    from lockstep.core.pipeline.targets import Target

# Topics of a connector's own, by the names that Debezium and its tutorial give them. A table's has its schema in front.
OWN_TOPICS = {
    "heartbeats": re.compile(r"__debezium-heartbeat(\..*)?\Z"),
    "schema changes": re.compile(r"(schema-?(changes|history)(\..*)?|[^.]*\.schema-?(changes|history))\Z"),
}


def refuse_no_mirror(topic: TopicSource, format_: Format, targets: Sequence[Target], guarantee: Guarantee) -> None:
    """Refuses what would not make each target a mirror of the source's table. Looks at change records alone."""
    if not isinstance(format_, Debezium):
        return
    for what, pattern in OWN_TOPICS.items():
        for name in (topic,) if isinstance(topic, str) else topic if isinstance(topic, tuple) else ():
            if pattern.match(name):
                raise BadDefinition(f"topic {name!r} holds a connector's {what} and no rows: name the topic of a table")
    for target in targets:
        _refuse_target(format_, target)
    if not isinstance(guarantee, PerBatch | PerPartition):
        raise BadDefinition(
            f"guarantee: {type(guarantee).__name__}() brings rows to another place, where no earlier row is asked: "
            "Debezium takes PerBatch() or PerPartition()"
        )


def _refuse_target(format_: Debezium, target: Target) -> None:
    if not isinstance(target, Keyed):
        raise BadDefinition(
            f"target: {type(target).__name__} cannot follow a source that updates and deletes its rows: "
            f"say Upsert({target.table!r}, key={format_.key!r}), or History"
        )
    if isinstance(target.table, Iceberg):
        raise BadDefinition(
            f"target: {target.table!r} takes no change records: truncations, and values that a change leaves open, need the "
            "whole table in the database: name a table of the database"
        )
    if target.key != format_.key:
        raise BadDefinition(
            f"target.key of {target.table} is {target.key!r}, and Debezium deletes by {format_.key!r}: name the same"
        )
    if target.order_by is not None and (format_.order != BY_SOURCE or target.order_by != SOURCE_ORDER):
        raise BadDefinition(
            f"target.order_by of {target.table} is {target.order_by!r}, and a deletion has no such value: leave it out"
        )
    if format_.order != BY_SOURCE:
        return
    if not isinstance(target, Upsert):
        raise BadDefinition(
            f"target: {type(target).__name__} keeps versions in the order of the topic, and format.order is {BY_SOURCE!r}: "
            "leave out order, or say Upsert"
        )
    if target.shared_with:
        raise BadDefinition(
            f"target.shared_with of {target.table}: places in the logs of two sources say nothing about each other: "
            "leave out shared_with, or order"
        )


def in_order_of_source(format_: Format, target: Any) -> Any:
    """Returns the target, or the tuple of targets, whose rows are ordered as the format says."""
    if isinstance(target, tuple):
        return tuple(_in_order(format_, each) for each in target)
    return _in_order(format_, target)


def _in_order(format_: Format, target: Any) -> Any:
    """Returns an `Upsert` in the order of the source's log, if the format says so. Any other target stays."""
    if not isinstance(format_, Debezium) or format_.order != BY_SOURCE or not isinstance(target, Upsert):
        return target
    return target if target.order_by is not None else replace(target, order_by=SOURCE_ORDER)
