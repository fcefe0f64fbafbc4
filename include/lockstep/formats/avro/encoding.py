"""Encodes rows of a feed as Avro in Confluent's wire format, from the texts that Postgres gives."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

from fastavro import parse_schema, schemaless_reader, schemaless_writer

from lockstep.core.errors import BadData
from lockstep.core.formats.registered import HEAD_BYTES, MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lockstep.core.feed.avro import TableColumn
    from lockstep.formats.avro.schemas import Schemas


class Encoder:
    """An encoder of one feed's values. Texts are as `ledger/feed/outgoing` selects them."""

    def __init__(self, schema_id: int, schema: Mapping[str, Any], columns: Sequence[TableColumn]) -> None:
        self._schema = parse_schema(dict(schema))
        self._head = MAGIC + schema_id.to_bytes(4, "big")
        self._columns = [(column, _reader(column)) for column in columns]

    def row(self, number: int, texts: Sequence[str | None]) -> dict[str, Any]:
        """Returns a row by column. Raises `BadData` for a value that its Avro type cannot hold."""
        row: dict[str, Any] = {}
        for (column, read), text in zip(self._columns, texts, strict=True):
            try:
                row[column.name] = None if text is None else read(text)
            except (ValueError, ArithmeticError):
                raise BadData(
                    f"change {number}: column {column.name} is {text}, which no Avro value of {column.type} holds",
                    next_command="leave value out of the Topic for JSON, or give the column the type text",
                ) from None
        return row

    def encoded(self, value: Mapping[str, Any]) -> bytes:
        """Returns a value's bytes, behind the id of its schema."""
        out = BytesIO()
        out.write(self._head)
        schemaless_writer(out, self._schema, value)
        return out.getvalue()


def read_value(value: bytes, known: Schemas) -> Any:
    """Returns a value by the schema that it was written with. Raises `ValueError` for bytes that are none."""
    if value[:1] != MAGIC or len(value) < HEAD_BYTES:
        raise ValueError("no value of a registry's schema")
    try:
        schema = _parsed(known.writer(int.from_bytes(value[1:HEAD_BYTES], "big"))[0])
        return schemaless_reader(BytesIO(value[HEAD_BYTES:]), schema, None)
    except (LookupError, EOFError, TypeError) as error:
        raise ValueError(str(error)) from None


@cache
def _parsed(text: str) -> Any:
    return parse_schema(json.loads(text))


def _reader(column: TableColumn) -> Callable[[str], Any]:
    """Returns the function that reads a column's text as the value that fastavro writes."""
    type_ = column.avro
    kind = type_["type"] if isinstance(type_, dict) else type_
    if kind == "bytes" and isinstance(type_, dict):
        scale = type_["scale"]
        return lambda text: _unscaled(Decimal(text), scale)
    readers: dict[str, Callable[[str], Any]] = {
        "boolean": lambda text: text == "true",
        "int": int,
        "long": int,
        "float": float,
        "double": float,
        "bytes": bytes.fromhex,
    }
    return readers.get(kind, str)


def _unscaled(value: Decimal, scale: int) -> bytes:
    """Returns a decimal as Avro's bytes: its digits as a whole number, big-endian, in two's complement."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(value)  # noqa: TRY004 - NaN or infinity
    whole = int("".join(map(str, digits))) * int(10 ** (scale + exponent)) * (-1 if sign else 1)
    return whole.to_bytes((whole if whole >= 0 else ~whole).bit_length() // 8 + 1, "big", signed=True)
