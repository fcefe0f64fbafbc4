"""Defines the format of Debezium's change records."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline.columns import Column, parse_columns
from lockstep.core.records import SOURCE_ORDER, UNAVAILABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockstep.core.formats.registered import Avro

PLACEHOLDER = "__debezium_unavailable_value"  # Debezium's default of unavailable.value.placeholder
HEX = "hex:"  # a connector takes what follows for the placeholder's bytes
_BYTES_IN_HEX = re.compile(r"([0-9A-Fa-f]{2})+\Z", re.ASCII)
UNAVAILABLE_COLUMN = Column(UNAVAILABLE, "string")
SOURCE_ORDER_COLUMN = Column(SOURCE_ORDER, "binary")
BY_LOG, BY_SOURCE = "log", "source"
ORDERS = (BY_LOG, BY_SOURCE)
APPLY = "apply"
ON_TRUNCATE = ("refuse", APPLY)
# How a value may be written that its schema, or its type in JSON, does not explain.
VALUE_UNITS = {
    "date": ("days",),
    "timestamp": ("millis", "micros", "nanos"),
    "decimal": ("text",),
    "binary": ("base64", "hex"),
}


@dataclass(frozen=True, slots=True)
class Debezium:
    """Debezium's change records of one table. The target is the table as its source has it.

    `key` names the columns of the source's primary key, as the Kafka key has them. Records may have a schema, or the
    payload alone. `units` says how values are written that nothing else explains: `{"placed_at": "micros"}`.
    `placeholder` is the connector's `unavailable.value.placeholder`, perhaps with `hex:` in front. Records are JSON, or
    `wire=Avro(subject=...)`.

    With `order="source"`, the newest change of a row is the last one of the source's log. The target then has a column
    `_source_order bytea`. With `log`, it is the last one of the topic. A truncation of the table stops the batch. With
    `on_truncate="apply"`, which needs `order="source"`, it deletes every row from before it.
    """

    schema: str
    key: tuple[str, ...] = ("id",)
    units: Mapping[str, str] = field(default_factory=dict, hash=False)
    placeholder: str = PLACEHOLDER
    wire: Avro | None = None
    order: str = BY_LOG
    on_truncate: str = "refuse"

    def __post_init__(self) -> None:
        columns = {column.name: column for column in self.columns}
        if not isinstance(self.key, tuple) or not self.key:
            raise BadDefinition(f"format.key is {self.key!r}: it must be a tuple of column names, such as ('id',)")
        for name in self.key:
            if not isinstance(name, str) or name not in columns:
                raise BadDefinition(f"format.key: {name!r} is not a column of the schema ({', '.join(columns)})")
            if self.key.count(name) > 1:
                raise BadDefinition(f"format.key: {name!r} is there twice")
        if not isinstance(self.units, dict):
            raise BadDefinition(f"format.units is {self.units!r}: it must be a dict, such as {{'placed_at': 'micros'}}")
        for name, unit in self.units.items():
            _refuse_bad_unit(name, unit, columns)
        if not isinstance(self.placeholder, str) or not self.placeholder:
            raise BadDefinition(f"format.placeholder is {self.placeholder!r}: it must be the connector's placeholder")
        if self.placeholder.startswith(HEX) and not _BYTES_IN_HEX.match(self.placeholder.removeprefix(HEX)):
            raise BadDefinition(
                f"format.placeholder is {self.placeholder!r}: hexadecimal digits, two a byte, follow {HEX}"
            )
        if self.wire is not None and not getattr(self.wire, "is_of_the_table", False):
            raise BadDefinition(
                f"format.wire is {self.wire!r}: it must be Avro(), perhaps with a subject and nothing else"
            )
        _refuse_bad_order(self.order, self.on_truncate)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Returns the columns of the row, in the schema's order, then the place in the source's log, if it counts."""
        return (*parse_columns(self.schema), *([SOURCE_ORDER_COLUMN] if self.order == BY_SOURCE else []))

    @property
    def placeholder_bytes(self) -> bytes:
        """Returns the placeholder as the connector has it in its memory."""
        given = self.placeholder
        return bytes.fromhex(given.removeprefix(HEX)) if given.startswith(HEX) else given.encode()


def without_mark(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Returns the columns of a target among those of its staging table."""
    return tuple(column for column in columns if column.name != UNAVAILABLE)


def _refuse_bad_unit(name: str, unit: str, columns: Mapping[str, Column]) -> None:
    if name not in columns:
        raise BadDefinition(f"format.units: {name!r} is not a column of the schema ({', '.join(columns)})")
    kind = columns[name].type.partition("(")[0]
    if kind not in VALUE_UNITS:
        raise BadDefinition(f"format.units: column {name!r} is {kind}, which needs no unit")
    if unit not in VALUE_UNITS[kind]:
        raise BadDefinition(
            f"format.units: {name!r} is {unit!r}: a {kind} is written in {' or '.join(VALUE_UNITS[kind])}"
        )


def _refuse_bad_order(order: str, on_truncate: str) -> None:
    if order not in ORDERS:
        raise BadDefinition(f"format.order is {order!r}: it must be {' or '.join(ORDERS)}")
    if on_truncate not in ON_TRUNCATE:
        raise BadDefinition(f"format.on_truncate is {on_truncate!r}: it must be {' or '.join(ON_TRUNCATE)}")
    if on_truncate == APPLY and order != BY_SOURCE:
        raise BadDefinition(
            "format.on_truncate is 'apply': in the order of the topic nothing says which rows of other partitions are older "
            f"than a truncation: say order='{BY_SOURCE}' too, or on_truncate='refuse'"
        )
