"""Reads the newest schema of a subject as fields, each with the columns that take it."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from lockstep.core.capture.debezium import Debezium
from lockstep.core.changes.registered_fields import LatestSchema, SchemaField
from lockstep.core.formats.registered import Avro, Protobuf
from lockstep.core.pipeline.columns import MAX_PRECISION
from lockstep.core.pipeline.names import Topics, topic_tags
from lockstep.formats.avro import schemas as registered
from lockstep.formats.avro.schemas import UnknownSchema
from lockstep.formats.avro.types import branches, converter, type_name
from lockstep.formats.avro.writers import parsed
from lockstep.formats.debezium.change import schemas_of
from lockstep.formats.debezium.meaning import DECIMAL, reader_by_schema
from lockstep.formats.debezium.of_avro import connect_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Json, Pipeline
    from lockstep.core.registry import Registry

OF_VALUES = "-value"  # what most producers put behind a topic's name
# JSON Schema's types → the columns that may take a value of them. A text may be a date, a time or digits.
JSON_COLUMNS = {
    "string": {"string", "date", "timestamp", "decimal", "binary"},
    "integer": {"smallint", "int", "bigint", "float", "double", "decimal"},
    "number": {"smallint", "int", "bigint", "float", "double", "decimal"},
    "boolean": {"boolean"},
    "object": {"string"},
    "array": {"string"},
}
JSON_PREFERRED = {"integer": ("bigint",), "number": ("double",), "string": ("string",)}
CONNECT_COLUMNS = {
    **dict.fromkeys(("int8", "int16"), ("smallint",)),
    "int32": ("int",),
    "int64": ("bigint",),
    "string": ("string",),
}
MOST_STEPS = 20  # from one reference of a JSON Schema to the next
JSON_FORMATS = {"date": ("date",), "date-time": ("timestamp",)}


def subjects_of_values(pipeline: Pipeline, wire: Avro | Protobuf | Json, registry: Registry) -> list[str]:
    """Returns the subjects of the pipeline's values: the one that it names, or of each topic the usual one."""
    if wire.subject:
        return [wire.subject]
    if not isinstance(pipeline.topic, Topics):
        return [f"{topic}{OF_VALUES}" for topic in topic_tags(pipeline.topic)]
    known = registered.schemas(registry).subjects()
    return [each for each in known if each.endswith(OF_VALUES) and pipeline.topic.matches(each.removesuffix(OF_VALUES))]


def latest_schema(pipeline: Pipeline, wire: Avro | Protobuf | Json, registry: Registry, subject: str) -> LatestSchema:
    """Returns the newest schema of one of the pipeline's subjects.

    Raises `UnknownSchema` if there is none, or if its records have no fields. Raises `Unreachable` without an answer.
    """
    match wire:
        case Avro():
            schema_id, text, references = registered.schemas(registry).latest(subject)
            found = _of_avro(pipeline, schema_id, text, references)
        case Protobuf():
            schema_id, text, references = registered.schemas(registry, registered.PROTOBUF).latest(subject)
            found = _of_protobuf(pipeline, wire, schema_id, text, references)
        case _:
            schema_id, text, references = registered.schemas(registry, registered.JSON).latest(subject)
            found = _of_json(schema_id, text)
    return LatestSchema(subject, schema_id, tuple(found))


def _of_avro(pipeline: Pipeline, schema_id: int, text: str, references: Mapping[str, str]) -> Iterable[SchemaField]:
    writer = parsed(schema_id, text, references, pipeline.record_limits)
    if isinstance(pipeline.format, Debezium):
        return _of_changes(pipeline.format, writer.schema, writer.named)
    if writer.fields is None:
        raise UnknownSchema(f"schema id {schema_id} is no record")
    named = writer.named
    return [
        SchemaField(name, type_name(_alone(type_, named)), partial(_takes_avro, type_, named), _decimals(type_, named))
        for name, type_ in writer.fields.items()
    ]


def _takes_avro(type_: Any, named: Mapping[str, Any], column: Column) -> bool:
    return converter(type_, named, column) is not None


def _alone(type_: Any, named: Mapping[str, Any]) -> Any:
    """Returns the one type of a union with null, or the type itself."""
    found = branches(type_, named)
    return found[0] if len(found) == 1 else found


def _decimals(type_: Any, named: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the one decimal column that holds a decimal's digits."""
    found = [each for each in branches(type_, named) if isinstance(each, dict) and each.get("logicalType") == "decimal"]
    if len(found) != 1 or int(found[0]["precision"]) > MAX_PRECISION:
        return ()
    return (f"decimal({found[0]['precision']},{found[0].get('scale', 0)})",)


def _of_changes(format_: Debezium, schema: Any, named: Mapping[str, Any]) -> Iterator[SchemaField]:
    """Yields the fields of the row in a change record, or of a record that is the row itself."""
    whole = schemas_of(connect_schema(schema, named)) or {}
    row = schemas_of(whole["after"]) if "after" in whole else whole
    for name, its in (row or {}).items():
        if not name.startswith("__"):
            written = str(its.get("name") or its.get("type"))
            yield SchemaField(
                name, written.rpartition(".")[2], partial(_takes_change, format_, its), _connect_column(its)
            )


def _takes_change(format_: Debezium, its: Mapping[str, Any], column: Column) -> bool:
    try:
        reader_by_schema(its, column, dict(format_.units).get(column.name))
    except ValueError:
        return False
    return True


def _connect_column(its: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the column for every value of a field whose records are judged one by one."""
    if its.get("name") == DECIMAL:
        return (f"decimal({MAX_PRECISION},{its['parameters']['scale']})",)
    return () if "name" in its else CONNECT_COLUMNS.get(str(its.get("type")), ())


def _of_protobuf(
    pipeline: Pipeline, wire: Protobuf, schema_id: int, text: str, references: Mapping[str, str]
) -> list[SchemaField]:
    from lockstep.formats.protobuf.descriptors import FIRST, described  # noqa: PLC0415 - slow to import
    from lockstep.formats.protobuf.types import field_type_name, fit  # noqa: PLC0415 - as above

    file = described(schema_id, text, references, pipeline.record_limits)
    try:
        message = file.by_name(wire.message) if wire.message else file.message(FIRST)
    except (KeyError, ValueError) as error:
        raise UnknownSchema(f"schema id {schema_id} has no message {wire.message or 'at its first place'}") from error
    return [
        SchemaField(
            name,
            field_type_name(its),
            lambda column, its=its: fit(its, column) is not None,  # type: ignore[misc]
            ("string",) if its.enum_type is not None else (),
        )
        for name, its in message.fields.items()
    ]


def _of_json(schema_id: int, text: str) -> list[SchemaField]:
    try:
        whole = json.loads(text)
    except ValueError:
        raise UnknownSchema(f"schema id {schema_id} cannot be read: it is no JSON") from None
    properties = _resolved(whole, whole).get("properties")
    if not isinstance(properties, dict):
        raise UnknownSchema(f"schema id {schema_id} names no properties")
    return [_json_field(name, _resolved(each, whole)) for name, each in properties.items()]


def _json_field(name: str, its: Mapping[str, Any]) -> SchemaField:
    types = its.get("type")
    if types is None:
        types = [each.get("type") for each in its.get("oneOf") or its.get("anyOf") or () if isinstance(each, dict)]
    kinds = [each for each in (types if isinstance(types, list) else [types]) if each != "null"]
    known = bool(kinds) and all(isinstance(each, str) and each in JSON_COLUMNS for each in kinds)
    shape = its.get("format")
    preferred = JSON_FORMATS.get(str(shape), JSON_PREFERRED.get(str(kinds[0]), ())) if len(kinds) == 1 else ()
    written = "/".join(map(str, kinds)) or "of no type"

    def fits(column: Column) -> bool:
        kind = column.type.partition("(")[0]
        return known and all(kind in JSON_COLUMNS[each] for each in kinds)

    return SchemaField(name, f"{written} {shape}" if shape else written, fits, preferred)


def _resolved(part: Any, whole: Any, depth: int = 0) -> dict[str, Any]:
    """Returns a schema, or the one in the same document that it refers to. Anything else demands nothing."""
    if not isinstance(part, dict):
        return {}
    where = part.get("$ref")
    if not isinstance(where, str) or not where.startswith("#/"):
        return part
    found = whole
    for step in where[2:].split("/"):
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return _resolved(found, whole, depth + 1) if depth < MOST_STEPS else {}
