"""Judges one change record after another: a row, a deletion by its key, nothing, or a reject with its reason."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn

from lockstep.core.capture.debezium import APPLY, BY_SOURCE, SOURCE_ORDER_COLUMN
from lockstep.core.pipeline.columns import NUL
from lockstep.core.records import SOURCE_ORDER, UNAVAILABLE
from lockstep.formats.debezium.change import (
    DELETE,
    MESSAGE,
    TRUNCATE,
    CapturedChange,
    JsonDocuments,
    SchemasOfSides,
    change_of,
    json_document,
    schemas_of,
)
from lockstep.formats.debezium.meaning import (
    identity_of,
    is_as_it_stands,
    quick_taker,
    reader_by_schema,
    reader_without_schema,
)
from lockstep.formats.debezium.source_order import source_order
from lockstep.formats.debezium.unavailable import placeholder_test, placeholder_texts
from lockstep.formats.rows import RecordOutcome
from lockstep.formats.values import taker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lockstep.core.capture.debezium import Debezium
    from lockstep.core.pipeline.columns import Column

    Take = Callable[[Any], Any]
    Read = Callable[[bytes], tuple[Any, Mapping[str, Any] | None]]
    Schemas = Mapping[str, Mapping[str, Any]] | None

TRUNCATED = (
    "the source's table was truncated, and rows stay here: after the skip, run, empty the target, and take a snapshot "
    "(docs/formats.md)"
)
NO_PLACEHOLDERS = frozenset({int, float, bool, Decimal})  # none of them stands for an unavailable value
MOST_TAKERS = 1_000
STRUCT = "Struct{"  # how a key begins that Connect's StringConverter has written


class ChangeDecoder:
    """The judge of one task's change records. It chooses the reader of a field once per schema.

    `of_value` and `of_key` return payload and schema of bytes. Without them, bytes are JSON.
    """

    def __init__(
        self, pipeline: str, format_: Debezium, of_value: Read | None = None, of_key: Read | None = None
    ) -> None:
        self._pipeline = pipeline
        self._of_value = of_value or JsonDocuments()
        self._of_key = of_key or json_document
        self._columns = tuple(column for column in format_.columns if column is not SOURCE_ORDER_COLUMN)
        self._is_ordered = format_.order == BY_SOURCE
        self._applies_truncations = format_.on_truncate == APPLY
        self.forget_deletion()
        self._keys = tuple(column for name in format_.key for column in format_.columns if column.name == name)
        self._units = dict(format_.units)
        self._sides = SchemasOfSides()
        self._takers: dict[Any, Take] = {}
        self._planned: Sequence[tuple[Column, Take]] | None = None
        self._planned_schemas: Schemas = None
        self._is_unavailable = placeholder_test(format_.placeholder_bytes)
        self.placeholders = placeholder_texts(format_.placeholder_bytes)

    @property
    def deleted_key(self) -> bytes | None:
        """Returns the key of the newest deletion, if a tombstone of this key would have its order."""
        return self._deleted[0]

    def forget_deletion(self) -> None:
        """Forgets the newest deletion."""
        self._deleted: tuple[bytes | None, bytes | None] = None, None  # its key and its order

    def __call__(self, key: bytes | None, value: bytes | None, _headers: str | None) -> RecordOutcome:
        """Returns the outcome of a record."""
        try:
            if value is None:
                return self._deletion(key, None)
            payload, schema = self._of_value(value)
            if payload is None:
                return self._deletion(key, None)
            change = change_of(payload, schema, self._sides)
            if change.operation == MESSAGE:
                return RecordOutcome(filtered=True)
            if change.operation == TRUNCATE:
                return self._truncation(change)
            return self._deletion(key, change) if change.operation == DELETE else self._row(change, key)
        except ValueError as error:
            return RecordOutcome(reason=str(error))

    def _row(self, change: CapturedChange, key: bytes | None) -> RecordOutcome:
        """Returns the row. A value that the source's log does not hold is null here, and its column is marked."""
        values: dict[str, Any] = {}
        marked = []
        for column, take in self._takers_of_row(change.schemas):
            name = column.name
            value = change.fields.get(name)
            if value is None:
                values[name] = None
            elif type(value) not in NO_PLACEHOLDERS and self._is_unavailable(value):
                if column in self._keys:
                    raise ValueError(f"column {name}: its value is unavailable, and it is the key")
                marked.append(name)
                values[name] = None
            else:
                try:
                    values[name] = take(value)
                except (TypeError, ValueError) as error:
                    raise _of_column(column, error) from None
        if self._is_ordered:
            if key == self._deleted[0]:
                self.forget_deletion()
            values[SOURCE_ORDER] = source_order(change.source, change.operation)
        return RecordOutcome(values | {UNAVAILABLE: ",".join(marked)} if marked else values)

    def _truncation(self, change: CapturedChange) -> RecordOutcome:
        """Returns a deletion of no key at the change's place. Refuses the batch where it is not to be applied."""
        if not self._applies_truncations:
            return RecordOutcome(refusal=f"{self._pipeline}: {TRUNCATED}")
        try:
            return RecordOutcome({SOURCE_ORDER: source_order(change.source, change.operation)}, deleted=True)
        except ValueError as error:  # a reject would leave the rows, and nobody would know
            return RecordOutcome(refusal=f"{self._pipeline}: {TRUNCATED}: {error}")

    def _deletion(self, key: bytes | None, change: CapturedChange | None) -> RecordOutcome:
        """Returns the deletion by the Kafka key, else by what the record itself says of the row."""
        values = self._key_values(key)
        if values is None and change is not None:
            values = self._values_of_key(change.fields, change.schemas)
        if values is None:
            names = ", ".join(column.name for column in self._keys)
            raise ValueError(f"deletion: neither its key nor its row says {names}")
        if self._is_ordered and (order := self._order_of(key, change)) is not None:
            values[SOURCE_ORDER] = order
        return RecordOutcome(values, deleted=True)

    def _order_of(self, key: bytes | None, change: CapturedChange | None) -> bytes | None:
        """Returns the order of a deletion. A tombstone has that of its deletion, if this task has read it, else none."""
        if change is None:
            return self._deleted[1] if key is not None and key == self._deleted[0] else None
        order = source_order(change.source, change.operation)
        self._deleted = key, order
        return order

    def _key_values(self, key: bytes | None) -> dict[str, Any] | None:
        """Returns the key columns from the Kafka key, or None if it does not hold them."""
        if key is None:
            return None
        try:
            payload, schema = self._of_key(key)
        except ValueError:
            payload, schema = _NO_JSON, None
        if isinstance(payload, dict):
            return self._values_of_key(payload, schemas_of(schema))
        if len(self._keys) != 1:
            return None
        (column,) = self._keys
        if schema is None and column.type == "string" and not isinstance(payload, str):
            payload = _plain_text(key)
        if payload is None or payload is _NO_JSON or isinstance(payload, list):
            return None
        return {column.name: self._taken(column, payload, None if schema is None else {column.name: schema})}

    def _values_of_key(self, fields: Mapping[str, Any], schemas: Schemas) -> dict[str, Any] | None:
        if any(fields.get(column.name) is None for column in self._keys):
            return None
        return {column.name: self._taken(column, fields[column.name], schemas) for column in self._keys}

    def _taken(self, column: Column, value: Any, schemas: Schemas) -> Any:
        """Returns the column's value. Raises `ValueError` with column and reason."""
        if value is None:
            return None
        try:
            return self.taker(column, schemas)(value)
        except (TypeError, ValueError) as error:
            raise _of_column(column, error) from None

    def _takers_of_row(self, schemas: Schemas) -> Sequence[tuple[Column, Take]]:
        """Returns each column with its taker. The takers of the schemas before are those of the same schemas."""
        if self._planned is None or self._planned_schemas is not schemas:
            self._planned = [(column, self._lazy_taker(column, schemas)) for column in self._columns]
            self._planned_schemas = schemas
        return self._planned

    def _lazy_taker(self, column: Column, schemas: Schemas) -> Take:
        """Returns the taker, or one that raises the reason why there is none."""
        try:
            return self.taker(column, schemas)
        except ValueError as error:
            reason = str(error)

        def refuse(_value: Any) -> NoReturn:
            raise ValueError(reason)

        return refuse

    def taker(self, column: Column, schemas: Schemas) -> Take:
        """Returns a function from a field's value to the column's. Raises `ValueError` if no value of the schema fits."""
        schema = None if schemas is None else schemas.get(column.name)
        if schemas is not None and schema is None:
            raise ValueError("its schema is not Connect's: it does not name this field")
        known = (column.name, None if schema is None else identity_of(schema))
        if known not in self._takers:
            if len(self._takers) >= MOST_TAKERS:  # schemas come with the records, so they may all differ
                self._takers.clear()
            unit = self._units.get(column.name)
            read = reader_without_schema(column, unit) if schema is None else reader_by_schema(schema, column, unit)
            take = taker(column)
            self._takers[known] = quick_taker(column, read, take, is_plain=schema is None or is_as_it_stands(schema))
        return self._takers[known]


_NO_JSON = object()


def _of_column(column: Column, error: Exception) -> ValueError:
    """Returns a fault of a value as the reason that names its column."""
    if isinstance(error, TypeError):
        return ValueError(f"column {column.name}: not a {column.type}")
    text = str(error)
    return ValueError(text if text.startswith("column ") else f"column {column.name}: {text}")


def _plain_text(key: bytes) -> Any:
    """Returns a key of plain text. Returns None for the text of a struct, and for bytes that no column of text holds."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return None
    return None if text.startswith(STRUCT) or NUL in text else text
