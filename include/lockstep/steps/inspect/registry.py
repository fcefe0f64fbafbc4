"""Asks the schema registry if it answers, and if it has the subjects of the pipelines that decode by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.capture.debezium import Debezium
from lockstep.core.changes.registered_fields import SchemaShift, Shift, shifted
from lockstep.core.errors import Refusal
from lockstep.core.health.findings import Check, problem, warning
from lockstep.core.pipeline.columns import parse_columns
from lockstep.core.pipeline.formats import key_columns, registered_of
from lockstep.core.pipeline.targets import needed_columns
from lockstep.core.registry import NAME_REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lockstep.core.formats.registered import Avro, Protobuf
    from lockstep.core.health.findings import Judged
    from lockstep.core.pipeline.definition import Json, Pipeline
    from lockstep.core.registry import Registry

WHY = "a record's schema comes from there: a batch with a schema that is not known yet waits"
NOT_SET = "LOCKSTEP_REGISTRY is not set"
NO_COLUMN = "what such records hold of it reaches no row"
NO_SCHEMA = "each record of another subject is a reject"


def registry_findings(pipelines: Sequence[Pipeline], place: Callable[[], Registry | None]) -> Judged:
    """Returns what is wrong with the registry for the pipelines that need one. Asks nothing if none does."""
    formats = {each.name: wire for each in pipelines if (wire := registered_of(each.format))}
    if not formats:
        return []
    try:
        registry = place()
        if registry is None:
            return [problem(Check.REGISTRY, "registry", NOT_SET, WHY, NAME_REGISTRY)]
        from lockstep.formats.avro.schemas import schemas  # noqa: PLC0415 - the client is slow to import

        known = schemas(registry)
        known.require_answer()
        lacking = {name: each.subject for name, each in formats.items() if each.subject and not known.has(each.subject)}
    except Refusal as refusal:
        return [problem(Check.REGISTRY, "registry", refusal.message, WHY, refusal.next_command or NAME_REGISTRY)]
    remedy = "look at format.subject, or register the schema"
    shifts = [
        each for pipeline in pipelines if pipeline.name in formats for each in _shift_findings(pipeline, registry)
    ]
    return [
        None,
        *shifts,
        *(
            warning(
                Check.REGISTRY,
                f"pipeline {name}",
                f"subject {subject} has no schema at {registry.shown}",
                NO_SCHEMA,
                remedy,
            )
            for name, subject in lacking.items()
        ),
    ]


def schema_shift(pipeline: Pipeline, registry: Registry) -> SchemaShift | None:
    """Returns how the newest schema of the pipeline's subject differs from its definition.

    Of several topics, the first subject that differs is told. Returns None if no registry has its schemas, or if no subject
    has one. Raises `Unreachable` without an answer.
    """
    from lockstep.formats.latest_schema import subjects_of_values  # noqa: PLC0415 - the client is slow to import

    wire = registered_of(pipeline.format)
    if wire is None:
        return None
    subjects = subjects_of_values(pipeline, wire, registry)
    known = [shift for each in subjects if (shift := _shift_of(pipeline, wire, registry, each))]
    return next((shift for shift in known if shift.shifts), known[0] if known else None)


def _shift_of(pipeline: Pipeline, wire: Avro | Protobuf | Json, registry: Registry, subject: str) -> SchemaShift | None:
    from lockstep.formats.avro.schemas import UnknownSchema  # noqa: PLC0415 - the client is slow to import
    from lockstep.formats.latest_schema import latest_schema  # noqa: PLC0415 - as above

    format_ = pipeline.format
    declared = parse_columns(format_.schema) if isinstance(format_, Debezium) else wire.declared
    try:
        latest = latest_schema(pipeline, wire, registry, subject)
    except UnknownSchema:
        return None
    needed = (*key_columns(format_), *needed_columns(pipeline.targets, pipeline.event_time))
    return shifted(declared, needed, latest)


def shift_document(pipeline: Pipeline, place: Callable[[], Registry | None]) -> dict[str, Any] | None:
    """Describes how the registry's newest schema differs from the definition, or in `fault` why nobody knows.

    Returns None for a pipeline without a registry's schemas, or whose subject has none.
    """
    if registered_of(pipeline.format) is None:
        return None
    unknown: dict[str, Any] = {"subject": None, "schema_id": None, "fields": [], "columns": None}
    try:
        registry = place()
        if registry is None:
            return unknown | {"fault": NOT_SET}
        shift = schema_shift(pipeline, registry)
    except Refusal as refusal:
        return unknown | {"fault": refusal.message}
    return None if shift is None else shift.document() | {"fault": None}


def words_of_shift(name: str, found: Mapping[str, Any] | None) -> list[str]:
    """Returns the lines of a difference, with what to paste into the definition, or of the fault in its place."""
    if found is None:
        return []
    if found["fault"]:
        return [f"{name}: the registry's newest schema was not compared: {found['fault']}"]
    where = f"{name}: subject {found['subject']}, schema id {found['schema_id']}"
    lines = [
        f"{where}: {each['found']}" + (f": paste {each['line']}" if each["line"] else "") for each in found["fields"]
    ]
    if any(each["line"] for each in found["fields"]):
        lines.append(
            f'{name}: the schema of the definition would be "{found["columns"]}"; nothing is changed by itself'
        )
    return lines


def _shift_findings(pipeline: Pipeline, registry: Registry) -> Judged:
    """Returns the fields that are new, gone or of another type. A `rest` keeps new ones, and a narrower one costs nothing."""
    try:
        shift = schema_shift(pipeline, registry)
    except Refusal:
        return []  # a registry that lists subjects, and has no schema for this login or in a form that can be read
    if shift is None:
        return []
    silent = {Shift.NARROWED, *([Shift.NEW] if getattr(pipeline.format, "rest", None) else [])}
    found = [each for each in shift.shifts if each.kind not in silent]
    why = {Shift.NEW: NO_COLUMN, Shift.LOST: "rows of such records lack it"}
    remedy = f"lockstep migrate {pipeline.name} --propose"
    return [
        warning(
            Check.REGISTRY,
            f"pipeline {pipeline.name}",
            f"subject {shift.subject}, schema id {shift.schema_id}: {each}",
            why.get(each.kind, "records of that schema stop their batch"),
            remedy,
        )
        for each in found
    ]
