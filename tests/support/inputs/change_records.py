"""Writes change records in JSON, as a connector sends them, and decodes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lockstep import Debezium
from lockstep.core.capture.debezium import PLACEHOLDER
from lockstep.formats.debezium.decoder import ChangeDecoder

if TYPE_CHECKING:
    from lockstep.formats.rows import RecordOutcome

SCHEMA = "id bigint, name string"
SOURCE = {"version": "3.0.0.Final", "connector": "postgresql", "lsn": 24023128, "ts_ms": 1_700_000_000_000}


def bytes_of(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else json.dumps(value).encode()


def decoded(value: Any, message_key: Any = None, schema: str = SCHEMA, **more: Any) -> RecordOutcome:
    return ChangeDecoder("shop", Debezium(schema, **more))(bytes_of(message_key), bytes_of(value), None)


def change(op: str, before: Any = None, after: Any = None, **more: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "source": SOURCE, "op": op, "ts_ms": 1_700_000_000_001} | more


def field(name: str, type_: str, semantic: str | None = None, **more: Any) -> dict[str, Any]:
    named = {} if semantic is None else {"name": semantic, "version": 1}
    return {"type": type_, "optional": True, "field": name} | named | more


def struct(*fields: dict[str, Any], name: str = "") -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields), "optional": True} | ({"field": name} if name else {})


def with_schema(payload: dict[str, Any], *fields: dict[str, Any]) -> dict[str, Any]:
    sides = [struct(*fields, name=side) for side in ("before", "after")]
    return {"schema": struct(*sides, field("op", "string")), "payload": payload}


def of_field(
    value: Any,
    column: str,
    *schema: Any,
    units: dict[str, str] | None = None,
    placeholder: str = PLACEHOLDER,
    **more: Any,
) -> RecordOutcome:
    """Returns the outcome of a row with one value in column `v`, with a schema of that field if one is given."""
    after = {"id": 1, "v": value}
    record = change("c", after=after)
    if schema:
        record = with_schema(record, field("id", "int64"), field("v", *schema, **more))
    return decoded(record, schema=f"id bigint, v {column}", units=units or {}, placeholder=placeholder)
