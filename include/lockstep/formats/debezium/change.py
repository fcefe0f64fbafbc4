"""Reads the JSON of a change record: which change it is, of which fields, by which schema."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from lockstep.core.errors import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    Fields = Mapping[str, Any]

ROWS = {"c", "u", "r"}
DELETE, TRUNCATE, MESSAGE = "d", "t", "m"
OPERATIONS = (*sorted(ROWS), DELETE, TRUNCATE, MESSAGE)
ADDED_DELETED, ADDED_OPERATION = "__deleted", "__op"  # what ExtractNewRecordState adds to a row
ADDED_SOURCE = "__source_"  # and of the source, for add.fields=source.lsn
WRAPPER = {"schema", "payload"}
TRUTH = {"true": True, "false": False}
_WRAPPED = re.compile(rb'\s*\{\s*"schema"\s*:(.*?),\s*"payload"\s*:', re.DOTALL)  # as Connect's converter writes it
MOST_NUMBER_DIGITS = 1_000  # of a number. Digits cost the square of their count.


class CapturedChange(NamedTuple):
    """One change of a row. `fields` are the row, or what is known of a deleted one. `schemas` are its fields' schemas.

    Without a schema, `schemas` is None. `source` says where the source's log has the change.
    """

    operation: str
    fields: Fields
    schemas: Mapping[str, Fields] | None = None
    source: Fields = {}  # noqa: RUF012 - nobody writes to it


def parsed_json(data: bytes) -> Any:
    """Returns the JSON of the bytes, with fractions as decimals. Raises `ValueError` with the reason if it is none."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ValueError("not valid UTF-8") from None
    try:
        return (_OF_SHORT if len(text) <= MOST_NUMBER_DIGITS else _OF_LONG).decode(text)
    except RecursionError:
        raise ValueError("is nested too deep") from None
    except (json.JSONDecodeError, InvalidOperation):
        raise ValueError("not JSON") from None


def json_document(data: bytes) -> tuple[Any, Fields | None]:
    """Returns payload and schema of JSON. One that is not wrapped is its own payload, without a schema.

    Raises `ValueError` with the reason if the bytes are no JSON.
    """
    document = parsed_json(data)
    if not isinstance(document, dict) or document.keys() != WRAPPER:
        return document, None
    schema = document["schema"]
    if schema is None:
        return document["payload"], None
    if not isinstance(schema, dict) or "type" not in schema:
        return document, None
    return document["payload"], schema


class JsonDocuments:
    """Reads documents of JSON. Records that begin with the schema of the one before share it, and it is parsed once."""

    def __init__(self) -> None:
        self._head: bytes | None = None
        self._schema: Fields | None = None

    def __call__(self, data: bytes) -> tuple[Any, Fields | None]:
        """Returns payload and schema as `json_document` does."""
        if self._head is not None and data.startswith(self._head) and data.endswith(b"}"):
            with suppress(ValueError):  # what follows is no payload alone, so that the whole must be looked at
                return parsed_json(data[len(self._head) : -1]), self._schema
        payload, schema = json_document(data)
        if schema is not None and (found := _WRAPPED.match(data)):
            with suppress(ValueError):
                if parsed_json(found[1]) == schema:
                    self._head, self._schema = found[0], schema
        return payload, schema


class SchemasOfSides:
    """Keeps the fields' schemas of each side of an envelope, for records that share one schema."""

    def __init__(self) -> None:
        self._schema: Fields | None = None
        self._sides: dict[str | None, Mapping[str, Fields] | None] = {}

    def of(self, schema: Fields | None, side: str | None = None) -> Mapping[str, Fields] | None:
        """Returns the schemas of a side's fields, or without a side of the record's own. Raises as `schemas_of` does."""
        if schema is not self._schema:
            self._schema, self._sides = schema, {}
        if side not in self._sides:
            found = schemas_of(schema)
            if side is not None and found is not None:
                if side not in found:
                    raise ValueError(f"its schema is not Connect's: it has no field {side}")
                found = schemas_of(found[side])
            self._sides[side] = found
        return self._sides[side]


def change_of(payload: Any, schema: Fields | None, sides: SchemasOfSides | None = None) -> CapturedChange:
    """Returns the change that a payload describes. Raises `ValueError` with the reason if it is no change record."""
    sides = sides or SchemasOfSides()
    if not isinstance(payload, dict):
        raise ValueError("no change record: not a JSON object")  # noqa: TRY004 - a reason
    # First: a row may have columns that are called like all parts of an envelope, and no envelope has these.
    if ADDED_DELETED in payload or ADDED_OPERATION in payload:
        return _of_row(payload, sides.of(schema))
    if _is_envelope(payload):
        return _of_envelope(payload, schema, sides)
    if "ddl" in payload or "tableChanges" in payload:
        raise ValueError("no change record: it tells of a change of the schema")
    if payload.keys() == {"ts_ms"}:
        raise ValueError("no change record: it is a heartbeat")
    raise ValueError("no change record: it has neither an envelope nor __deleted nor __op")


def schemas_of(schema: Fields | None) -> Mapping[str, Fields] | None:
    """Returns the schemas of a struct's fields by name, or None without a schema."""
    if schema is None:
        return None
    fields = schema.get("fields")
    if schema.get("type") != "struct" or not isinstance(fields, list):
        raise ValueError("its schema is not Connect's: no struct with fields")
    found: dict[str, Fields] = {}
    for each in fields:
        if not isinstance(each, dict) or not isinstance(each.get("field"), str):
            raise ValueError("its schema is not Connect's: a field without a name")  # noqa: TRY004 - a reason
        found[each["field"]] = each
    return found


def _is_envelope(payload: Fields) -> bool:
    """Returns True for an operation beside an object: the source's description, or the row on one side of the change."""
    source = payload.get("source")
    return (
        "op" in payload
        and (source is None or isinstance(source, dict))
        and (source is not None or any(isinstance(payload.get(side), dict) for side in ("before", "after")))
    )


def _of_envelope(payload: Fields, schema: Fields | None, sides: SchemasOfSides) -> CapturedChange:
    operation = _operation(payload["op"], "op")
    side = "after" if operation in ROWS else "before"
    fields, source = payload.get(side), payload.get("source") or {}
    if fields is None and operation in ROWS:
        raise ValueError(f"op {operation}: after is null, and it is the row")
    if fields is not None and not isinstance(fields, dict):
        raise ValueError(f"op {operation}: {side} is no object")
    of_side = None if operation in {TRUNCATE, MESSAGE} else sides.of(schema, side)
    return CapturedChange(operation, fields or {}, of_side, source)


def _of_row(payload: Fields, schemas: Mapping[str, Fields] | None) -> CapturedChange:
    """Returns the change of a row without an envelope, as ExtractNewRecordState writes it."""
    deleted = payload.get(ADDED_DELETED)
    deleted = TRUTH.get(deleted, deleted) if isinstance(deleted, str) else deleted
    if deleted is not None and not isinstance(deleted, bool):
        raise ValueError("__deleted: neither true nor false")
    operation = (
        _operation(payload[ADDED_OPERATION], ADDED_OPERATION) if payload.get(ADDED_OPERATION) is not None else None
    )
    if deleted is None and operation is None:
        raise ValueError("no change record: __deleted and __op are null")
    if (
        operation is not None
        and deleted is not None
        and operation in ROWS | {DELETE}
        and deleted != (operation == DELETE)
    ):
        raise ValueError(f"__op {operation} and __deleted {str(deleted).lower()}: one says that the row is gone")
    source = {n.removeprefix(ADDED_SOURCE): value for n, value in payload.items() if n.startswith(ADDED_SOURCE)}
    return CapturedChange(operation or (DELETE if deleted else "u"), payload, schemas, source)


def _operation(given: Any, field: str) -> str:
    if not isinstance(given, str) or given not in OPERATIONS:
        raise ValueError(f"{field} {quoted(str(given))}: not one of {', '.join(OPERATIONS)}")
    return given


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a field stands there twice")
    return made


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _whole(text: str) -> int:
    if len(text) > MOST_NUMBER_DIGITS:
        raise ValueError(f"a number has more than {MOST_NUMBER_DIGITS} digits")
    return int(text)


def _fraction(text: str) -> Decimal:
    if len(text) > MOST_NUMBER_DIGITS:
        raise ValueError(f"a number has more than {MOST_NUMBER_DIGITS} digits")
    return Decimal(text)


_OF_LONG = json.JSONDecoder(
    parse_float=_fraction, parse_int=_whole, parse_constant=_no_number, object_pairs_hook=_object
)
# No number of a short text has too many digits, so none needs to be looked at.
_OF_SHORT = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_number, object_pairs_hook=_object)
