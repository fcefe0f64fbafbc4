"""Defines the totals of a key, each in its own column. The order of the records does not matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline.columns import IDENTIFIER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

WHOLE_SPARK_TYPES = ("smallint", "int", "bigint")
ORDERED = (*WHOLE_SPARK_TYPES, "float", "double", "string", "date", "timestamp")


@dataclass(frozen=True, slots=True)
class Count:
    """The number of a key's rows. With `of`, the number of its rows that have a value there."""

    name: str
    of: str | None = None

    def __post_init__(self) -> None:
        _refuse_bad_names(self)


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of a column of an exact type. Nulls are left out. Over nothing but nulls it is null."""

    name: str
    of: str

    def __post_init__(self) -> None:
        _refuse_bad_names(self)


@dataclass(frozen=True, slots=True)
class Min:
    """The least value of a column. Nulls are left out."""

    name: str
    of: str

    def __post_init__(self) -> None:
        _refuse_bad_names(self)


@dataclass(frozen=True, slots=True)
class Max:
    """The greatest value of a column. Nulls are left out."""

    name: str
    of: str

    def __post_init__(self) -> None:
        _refuse_bad_names(self)


Total = Count | Sum | Min | Max


def misfits(key: Sequence[str], totals: Sequence[Total], types: Mapping[str, str]) -> Iterator[str]:
    """Yields one line for each key or total that columns of these types do not allow, with the field's name."""
    known = ", ".join(types)
    for name in key:
        if name not in types:
            yield f"target.key: {name!r} is no column ({known})"
    for total in totals:
        field = f"target.totals: {type(total).__name__}({total.name!r})"
        if total.of is None:
            continue
        type_ = types.get(total.of)
        if type_ is None:
            yield f"{field}: {total.of!r} is no column ({known})"
        elif isinstance(total, Sum) and type_ in {"float", "double"}:
            yield (
                f"{field}: {total.of} is {type_}, and a sum of floats depends on the order of its terms, so a replay could "
                "not be exact; decode it as decimal(p,s)"
            )
        elif isinstance(total, Sum) and type_ not in WHOLE_SPARK_TYPES and not _is_decimal(type_):
            yield f"{field}: {total.of} is {type_}, which cannot be added; {', '.join(WHOLE_SPARK_TYPES)} and decimal(p,s) can"
        elif isinstance(total, Min | Max) and type_ not in ORDERED and not _is_decimal(type_):
            yield f"{field}: {total.of} is {type_}, which has no least and no greatest value"


def _is_decimal(type_: str) -> bool:
    return type_.startswith("decimal")


def _refuse_bad_names(total: Total) -> None:
    field = f"target.totals: {type(total).__name__}({total.name!r})"
    for name in (total.name, *([] if total.of is None else [total.of])):
        if not isinstance(name, str) or not IDENTIFIER.match(name):
            raise BadDefinition(f"{field}: {name!r} is not a column name")
