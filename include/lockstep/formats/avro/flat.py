"""Decides if a writer's records decode by columns: flat fields of types that are read exactly as one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.formats.avro.types import converter, unchanged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockstep.core.pipeline.columns import Column
    from lockstep.formats.avro.writers import WriterSchema

# A type, with its logical type if it has one. Any other may change what a value is.
FLAT = frozenset(
    {
        *("null", "boolean", "int", "long", "float", "double", "string", "bytes", "fixed", "enum", "string uuid"),
        *("int date", "long timestamp-millis", "long timestamp-micros", "bytes decimal", "fixed decimal"),
    }
)
MOST_FIXED = 2**20
TWO = 2  # branches of a union: null, and a value


@dataclass(frozen=True, slots=True)
class FlatField:
    """A field of a flat record. `value_branch` is the value's branch in a union with null, or None without a union.

    `column` is None for a field that no column takes.
    """

    kind: str
    value_branch: int | None
    column: Column | None
    symbols: tuple[str, ...] = ()
    size: int = 0
    precision: int = 0
    scale: int = 0


def flat_fields(writer: WriterSchema, columns: Sequence[Column]) -> tuple[FlatField, ...] | None:
    """Returns the fields of a writer's records in their order, or None if a record must be decoded alone."""
    fields = writer.fields
    if fields is None or writer.is_open or len(fields) < len(writer.schema["fields"]):
        return None
    by_name = {column.name: column for column in columns}
    found = []
    for name, type_ in fields.items():
        flat = _flat(type_, writer.named, by_name.get(name))
        if flat is None:
            return None
        found.append(flat)
    return tuple(found)


def _flat(type_: Any, named: Mapping[str, Any], column: Column | None) -> FlatField | None:
    whole, branch = type_, None
    if isinstance(type_, list):
        if len(type_) != TWO or "null" not in type_:
            return None
        branch = 1 - type_.index("null")
        whole = type_[branch]
    whole = named.get(whole, whole) if isinstance(whole, str) else whole
    whole = whole if isinstance(whole, dict) else {"type": whole}
    kind = whole["type"] if whole.get("logicalType") is None else f"{whole['type']} {whole['logicalType']}"
    if not _is_flat(kind, whole) or (branch is not None and kind == "null"):
        return None
    if column is not None and converter(type_, named, column) is not unchanged:
        return None
    details = {name: whole[name] for name in ("size", "precision", "scale") if name in whole}
    return FlatField(kind, branch, column, tuple(whole.get("symbols", ())), **details)


def _is_flat(kind: Any, whole: Mapping[str, Any]) -> bool:
    """Returns True if values of this type are read by columns. The parser lets odd sizes through."""
    if not isinstance(kind, str) or kind not in FLAT:
        return False
    if kind.startswith("fixed") and not (isinstance(whole["size"], int) and 0 <= whole["size"] <= MOST_FIXED):
        return False
    return not kind.endswith("decimal") or (whole.get("precision", 0) > 0 and whole.get("precision") is not True)
