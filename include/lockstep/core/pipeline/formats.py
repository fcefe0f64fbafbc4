"""Defines the formats of a record's bytes, and the columns that come out of them."""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.core.capture.debezium import SOURCE_ORDER_COLUMN, UNAVAILABLE_COLUMN, Debezium
from lockstep.core.errors import BadDefinition
from lockstep.core.formats.fields import NamedFields, refuse_bad_rest, refuse_no_column
from lockstep.core.formats.registered import Avro, Protobuf, refuse_bad_subject
from lockstep.core.pipeline.columns import Column, parse_columns
from lockstep.core.records import SOURCE_ORDER, UNAVAILABLE


@dataclass(frozen=True, slots=True)
class Json(NamedFields):
    """JSON objects with this schema. `key` names the column that holds the Kafka key, which a tombstone needs.

    Fields outside the schema are ignored, or gathered as JSON text in the string column `rest`. Missing fields are
    null. `strict` rejects a record whose fields are not exactly the schema's.

    With `registry`, each record has the id of a JSON Schema in front, in Confluent's wire format. `subject` is as for
    `Avro`. `validate` rejects a record that its registered schema does not allow.
    """

    schema: str
    key: str | None = None
    strict: bool = False
    rest: str | None = None
    registry: bool = False
    subject: str | None = None
    validate: bool = False

    def __post_init__(self) -> None:
        for field in ("strict", "registry", "validate"):
            if not isinstance(getattr(self, field), bool):
                raise BadDefinition(f"format.{field} is {getattr(self, field)!r}: it must be True or False")
        for field in ("subject", "validate"):
            if getattr(self, field) and not self.registry:
                raise BadDefinition(f"format.{field} needs the registry's schemas: say registry=True, too")
        refuse_bad_subject(self.subject)
        if self.strict and self.rest is not None:
            raise BadDefinition("format.strict and format.rest: a field that is not in the schema is rejected or kept")
        refuse_no_column("format.key", self.key, self.declared)
        refuse_bad_rest(self.rest, self.schema)


@dataclass(frozen=True, slots=True)
class Raw:
    """The value's bytes as they are, in one `binary` column. A record without a value has null there."""

    column: str = "value"

    def __post_init__(self) -> None:
        if not isinstance(self.column, str):
            raise BadDefinition(f"format.column is {self.column!r}: it must be a column's name")
        Column(self.column, "binary")

    @property
    def key(self) -> None:
        """Returns None, because no column holds the Kafka key. An `Envelope` can give it one."""
        return

    @property
    def columns(self) -> tuple[Column, ...]:
        """Returns the one column."""
        return (Column(self.column, "binary"),)


@dataclass(frozen=True, slots=True)
class Custom:
    """Records that the pipeline's own `decode.py` decodes.

    `function(key, value, headers)` returns a dict of these columns. None filters the record. `Delete` deletes the row of
    a key. A `ValueError` rejects the record with that reason.
    """

    schema: str
    function: str = "decode"

    def __post_init__(self) -> None:
        if not isinstance(self.function, str) or not self.function.isidentifier():
            raise BadDefinition(f"format.function is {self.function!r}: it must name a function of decode.py")
        parse_columns(self.schema)

    @property
    def key(self) -> None:
        """Returns None, because the decoder itself is given the Kafka key."""
        return

    @property
    def columns(self) -> tuple[Column, ...]:
        """Returns the decoded columns, in the schema's order."""
        return parse_columns(self.schema)


Format = Json | Avro | Protobuf | Raw | Custom | Debezium


def key_columns(format_: Format) -> tuple[str, ...]:
    """Returns the columns that the Kafka key holds, or none."""
    key = format_.key
    return key if isinstance(key, tuple) else () if key is None else (key,)


@dataclass(frozen=True, slots=True)
class Envelope:
    """The columns for what stands around a record's value. `key` may be typed: `"message_key binary"`.

    `headers` is a JSON list of objects. Each has `key` with `value`, or with `base64` if the bytes are no text.
    """

    key: str | None = None
    timestamp: str | None = None
    headers: str | None = None
    partition: str | None = None
    offset: str | None = None
    topic: str | None = None

    def __post_init__(self) -> None:
        if not self.columns:
            raise BadDefinition("envelope: it names no column")
        column = self.key_column
        if column is not None and column.type not in {"string", "binary"}:
            raise BadDefinition(f"envelope.key: {column.name!r} is {column.type}, and must be string or binary")
        _refuse_twice("envelope", self.columns)

    @property
    def key_column(self) -> Column | None:
        """Returns the column of the Kafka key, or None. It is a string, unless it says binary."""
        if self.key is None:
            return None
        (column, *more) = parse_columns(self.key if len(self.key.split()) > 1 else f"{self.key} string")
        if more:
            raise BadDefinition(f"envelope.key: {self.key!r} is more than one column")
        return column

    @property
    def columns(self) -> tuple[Column, ...]:
        """Returns the columns, in the order of the fields."""
        typed = (
            (self.timestamp, "timestamp"),
            (self.headers, "string"),
            (self.partition, "int"),
            (self.offset, "bigint"),
            (self.topic, "string"),
        )
        rest = (Column(name, type_) for name, type_ in typed if name is not None)
        return (*([self.key_column] if self.key_column else []), *rest)


def registered_of(format_: Format) -> Avro | Protobuf | Json | None:
    """Returns what the format's records come in by a registry's schemas, or None if they need no registry."""
    if isinstance(format_, Debezium):
        return format_.wire
    if isinstance(format_, Json):
        return format_ if format_.registry else None
    return format_ if isinstance(format_, Avro | Protobuf) else None


def marked_columns(format_: Format) -> tuple[Column, ...]:
    """Returns the format's columns as they are staged, with the mark of unavailable values if it may have such."""
    return (*format_.columns, UNAVAILABLE_COLUMN) if isinstance(format_, Debezium) else format_.columns


def is_marked(format_: Format) -> bool:
    """Returns True if a record of the format may leave values to the row that is there."""
    return UNAVAILABLE_COLUMN in marked_columns(format_)


def columns_of(format_: Format, envelope: Envelope | None, *, is_staged: bool = False) -> tuple[Column, ...]:
    """Returns every decoded column: the format's, then the envelope's. Refuses a repeated name.

    With `is_staged`, the mark of unavailable values is among them, where the format has one.
    """
    own, more = format_.columns, envelope.columns if envelope else ()
    columns = (marked_columns(format_) if is_staged else own) + more
    _refuse_twice("envelope", columns)
    for column in (*own, *more):
        if column.name in {UNAVAILABLE, SOURCE_ORDER} and column is not SOURCE_ORDER_COLUMN:
            raise BadDefinition(f"column {column.name!r} is reserved: Lockstep fills it")
    return columns


def _refuse_twice(field: str, columns: tuple[Column, ...]) -> None:
    names = [column.name for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise BadDefinition(f"{field}: column {name!r} stands there twice")
