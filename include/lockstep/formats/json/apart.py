"""Reads some fields of a JSON record by themselves. They are typed, to see if they fit, or read as the judge does."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from lockstep.formats.json.literal import Literal
from lockstep.formats.json.rest import QuickGatherer, fields_struct
from lockstep.formats.json.written import literal_reader
from lockstep.formats.values import BITS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockstep.core.pipeline.columns import Column

    Row = Sequence[Any]
    Read = Callable[[msgspec.Raw | None], Any]

SCREENED_TYPES: dict[str, Any] = {"boolean": bool, "float": float, "double": float} | {
    type_: Annotated[int, msgspec.Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)] for type_, bits in BITS.items()
}
CONSTANTS = {"null": None, "true": True, "false": False}
FAULTS = (msgspec.MsgspecError, ValueError, RecursionError)  # of a record that the judge should read
unquoted = msgspec.json.Decoder(str).decode


@lru_cache(maxsize=1_000)
def screen_of(columns: tuple[Column, ...]) -> Callable[[bytes], bool]:
    """Returns a function that says whether a record's fields seem to be of these columns' types.

    Arrow may refuse such a record all the same. Without columns, it says whether the record is JSON.
    """
    decode = _decoder(columns, lambda column: _type(column) | None)

    def seems_good(record: bytes) -> bool:
        try:
            decode(record)
        except FAULTS:
            return False
        return True

    return seems_good


@lru_cache(maxsize=100)
def field_reader(columns: tuple[Column, ...], names: frozenset[str], rest: str | None) -> Callable[[bytes], Row | None]:
    """Returns a function from a record to its values of these columns. It gives None for a record of the judge's.

    The column `rest` gathers the fields that are not among the `names`. Without it, a record has none, if there are names.
    """
    read = _reader(tuple(column for column in columns if column.name != rest))
    if rest is not None:
        gather = QuickGatherer(names)
        return _quiet(lambda record: (*read(record), gather(record)))
    if names:
        require = msgspec.json.Decoder(
            fields_struct([(name, msgspec.Raw) for name in names], forbid_unknown_fields=True)
        ).decode

        def read_strictly(record: bytes) -> Row:
            require(record)
            return read(record)

        return _quiet(read_strictly)
    return _quiet(read)


def _reader(columns: tuple[Column, ...]) -> Callable[[bytes], Row]:
    readers = [_of_raw(column) for column in columns]
    if not readers:
        return lambda _: ()
    decode = _decoder(columns, lambda _: msgspec.Raw)
    if len(readers) == 1:
        return lambda record: (readers[0](decode(record).field_0),)
    return lambda record: [
        read(raw) for read, raw in zip(readers, msgspec.structs.astuple(decode(record)), strict=True)
    ]


def _quiet(read: Callable[[bytes], Row]) -> Callable[[bytes], Row | None]:
    def read_or_not(record: bytes) -> Row | None:
        try:
            return read(record)
        except FAULTS:
            return None

    return read_or_not


def _decoder(columns: tuple[Column, ...], type_of: Callable[[Column], Any]) -> Callable[[bytes], Any]:
    """Returns a function that decodes the columns' fields of a record. A missing one is None."""
    return msgspec.json.Decoder(fields_struct((column.name, type_of(column), None) for column in columns)).decode


def _of_raw(column: Column) -> Read:
    read = literal_reader(column)

    def value(raw: msgspec.Raw | None) -> Any:
        if raw is None:
            return None
        text = str(raw, "utf-8")
        if text[0] == '"':
            return read(unquoted(raw))
        return read(CONSTANTS[text] if text in CONSTANTS else Literal(text))

    return value


def _type(column: Column) -> Any:
    return str | float if column.type.startswith("decimal") else SCREENED_TYPES.get(column.type, str)
