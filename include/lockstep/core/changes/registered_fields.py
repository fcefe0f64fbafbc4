"""Compares a definition's columns with the fields of the newest schema in the registry. Changes nothing by itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from lockstep.core.changes.evolution import wider
from lockstep.core.errors import BadDefinition, quoted
from lockstep.core.pipeline.columns import POSTGRES, Column

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WHOLE_COLUMNS = ("smallint", "int", "bigint")
# The first one that holds every value of a field is proposed for it.
CANDIDATES = ("boolean", "int", "bigint", "float", "double", "date", "timestamp", "binary", "string")


class Shift(StrEnum):
    """The ways in which a schema may have moved away from a definition."""

    NEW = "new"
    LOST = "lost"
    NARROWED = "narrowed"
    WIDENED = "widened"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A field of a schema. `written` is its type in the schema's words, and `fits` says which columns take it.

    `preferred` are column types that are proposed before others, such as the one decimal that holds its digits.
    """

    name: str
    written: str
    fits: Callable[[Column], bool] = field(compare=False, repr=False)
    preferred: tuple[str, ...] = ()

    @property
    def column_type(self) -> str | None:
        """Returns the column type that holds every value of the field, or None if there is no such type."""
        return next((t for t in (*self.preferred, *CANDIDATES) if self.fits(Column("of_field", t))), None)


@dataclass(frozen=True, slots=True)
class LatestSchema:
    """The newest schema of a subject, with the fields of its records."""

    subject: str
    schema_id: int
    fields: tuple[SchemaField, ...]


@dataclass(frozen=True, slots=True)
class FieldShift:
    """One difference between a field and a column. `line` is what to paste into the definition, where something is."""

    kind: Shift
    name: str
    found: str
    line: str | None = None

    def __str__(self) -> str:
        return self.found + (f": paste {self.line}" if self.line else "")


@dataclass(frozen=True, slots=True)
class SchemaShift:
    """Everything in which a subject's newest schema differs from a definition. `columns` is the schema to paste whole."""

    subject: str
    schema_id: int
    shifts: tuple[FieldShift, ...]
    columns: str

    def document(self) -> dict[str, Any]:
        """Describes the difference, for `--json`."""
        shown = [
            {"kind": str(each.kind), "field": each.name, "found": each.found, "line": each.line} for each in self.shifts
        ]
        return {"subject": self.subject, "schema_id": self.schema_id, "fields": shown, "columns": self.columns}


def shifted(declared: Sequence[Column], needed: Sequence[str], latest: LatestSchema) -> SchemaShift:
    """Returns how the newest schema differs from the declared columns. `needed` are those that no row may lack."""
    its = {each.name: each for each in latest.fields}
    columns = {column.name: column.type for column in declared}
    shifts = [_of_column(column, its.get(column.name), needed) for column in declared]
    shifts += [_new(each) for each in latest.fields if each.name not in columns]
    found = tuple(each for each in shifts if each is not None)
    pasted = columns | {each.name: each.line.split(" ", 1)[1] for each in found if each.line}
    whole = ", ".join(f"{name} {type_}" for name, type_ in pasted.items())
    return SchemaShift(latest.subject, latest.schema_id, found, whole)


def _of_column(column: Column, its: SchemaField | None, needed: Sequence[str]) -> FieldShift | None:
    name = column.name
    if its is None:
        cost = "each new record is a reject, for the key or order needs it" if name in needed else "new rows hold null"
        return FieldShift(
            Shift.LOST,
            name,
            f"field {name} is gone: {cost}; the column stays in the table",
        )
    natural = its.column_type
    if its.fits(column):
        if natural is None or not _is_narrower(natural, column.type):
            return None
        found = f"field {name} is {its.written}, narrower than {column.type}: the column holds it, and stays as it is"
        return FieldShift(Shift.NARROWED, name, found)
    if natural is not None and _is_narrower(column.type, natural):
        found = f"field {name} is {its.written}, and {column.type} cannot hold it: such a batch stops"
        return FieldShift(Shift.WIDENED, name, found, f"{name} {natural}")
    fits = f", which fits {natural}" if natural else ""
    found = (
        f"field {name} is {its.written}{fits}, and no safe change makes that of {column.type}: such a batch stops; "
        "give the field another name, or the pipeline another table"
    )
    return FieldShift(Shift.CHANGED, name, found)


def _new(its: SchemaField) -> FieldShift:
    natural = its.column_type
    try:
        Column(its.name, natural or "string")
    except BadDefinition as fault:
        return FieldShift(Shift.NEW, its.name, f"field {quoted(its.name)} cannot be a column: {fault.message}")
    if natural is None:
        found = f"field {its.name} is {its.written} and has no column; no type is known to hold it"
        return FieldShift(Shift.NEW, its.name, found)
    return FieldShift(
        Shift.NEW, its.name, f"field {its.name} is {its.written} and has no column", f"{its.name} {natural}"
    )


def _is_narrower(one: str, other: str) -> bool:
    """Returns True if the second type is the first one made wider, as a table's column may be."""
    if one == other:
        return False
    if one in WHOLE_COLUMNS and (other == "double" or other.startswith("decimal")):
        return True
    first, second = (
        POSTGRES.get(t) or f"numeric({t.removeprefix('decimal(').removesuffix(')')})" for t in (one, other)
    )
    return wider(first, second) == second
