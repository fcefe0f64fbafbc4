"""Gathers the fields of a JSON object that a schema does not name, digit for digit."""

from __future__ import annotations

import re
from json import JSONDecoder
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from lockstep.formats.values import storable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

DECODER = JSONDecoder(parse_float=str, parse_int=str)
decode, encode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode, msgspec.json.Encoder().encode
MOST_NAMES = 1_000  # whose order is learned
MOST_ORDERS = 100  # orders that are learned, before others are met record by record
JSON_SPACE = re.compile(r"[ \t\r\n]*")


def gathered_rest(text: str, declared: frozenset[str]) -> str | None:
    """Returns a record's other fields as a JSON object, or null. Raises `ValueError` if Postgres could not store it."""
    others = [f"{name}:{value}" for field, name, value in fields_of(text) if field not in declared]
    return storable(f"{{{','.join(others)}}}") if others else None


class FieldOrder(NamedTuple):
    """An order in which records have their fields, a decoder by it, and each other field's beginning and value."""

    names: list[str]
    decode: Callable[[bytes], Any]
    others: Sequence[tuple[str, Callable[[Any], Any]]]


class QuickGatherer:
    """Gathers the other fields of records that are known to be JSON. It refuses a record that it is not sure of.

    It learns in which order records have their fields, and writes a record again in that order. If this is the same, but
    for spaces, no field is there twice, and no name has an escape.
    """

    def __init__(self, declared: frozenset[str]) -> None:
        self._declared = declared
        self._lessons = MOST_ORDERS
        self._order = self._in_order([])  # set in one step, since threads share it

    def __call__(self, record: bytes) -> str | None:
        """Returns the other fields as a JSON object, or null. Raises `ValueError` or `MsgspecError` if it is not sure."""
        order = self._order
        try:
            fields = order.decode(record)
        except msgspec.ValidationError:  # it has a field that was not met before
            return self._learned(record)
        if not _is_same(encode(fields), record):
            return self._learned(record)
        others = [begin + str(value, "utf-8") for begin, get in order.others if (value := get(fields)) is not None]
        return storable(f"{{{','.join(others)}}}") if others else None

    def _learned(self, record: bytes) -> str | None:
        """Gathers the other fields of a record whose order is new."""
        fields, known = decode(record), self._order.names
        if not _is_same(encode(fields), record):
            raise ValueError
        if self._lessons and len(fields) + len(known) <= MOST_NAMES:
            self._lessons -= 1
            self._order = self._in_order(merged_order(known, list(fields)))
        others = {name: value for name, value in fields.items() if name not in self._declared}
        return storable(encode(others).decode()) if others else None

    def _in_order(self, names: list[str]) -> FieldOrder:
        raws = [(name, msgspec.Raw, None) for name in names]
        fields = fields_struct(raws, forbid_unknown_fields=True, omit_defaults=True)
        others = [
            (f"{encode(name).decode()}:", attrgetter(f"field_{place}"))
            for place, name in enumerate(names)
            if name not in self._declared
        ]
        return FieldOrder(names, msgspec.json.Decoder(fields).decode, others)


def fields_struct(fields: Iterable[tuple[Any, ...]], **options: Any) -> type[msgspec.Struct]:
    """Returns a structure of the fields of a record, each given as name, type and default. Its attributes are numbered."""
    numbered = [(f"field_{place}", *field) for place, field in enumerate(fields)]
    names = {attribute: name for attribute, name, *_ in numbered}
    typed = [(attribute, *typed) for attribute, _, *typed in numbered]
    return msgspec.defstruct("Fields", typed, rename=names, gc=False, **options)


def merged_order(known: Sequence[str], names: Sequence[str]) -> list[str]:
    """Returns all the names, the given ones in their order. One that was not known is behind the name that it follows."""
    merged, at = list(known), 0
    for name in names:
        if name in known:
            at = merged.index(name) + 1
        else:
            merged.insert(at, name)
            at += 1
    for place, name in zip(sorted(map(merged.index, names)), names, strict=True):
        merged[place] = name
    return merged


def _is_same(again: bytes, record: bytes) -> bool:
    return again == record or msgspec.json.format(again, indent=-1) == msgspec.json.format(record, indent=-1)


def fields_of(text: str) -> Iterator[tuple[str, str, str]]:
    """Yields each field of the object: its name, the name's original text, the value's original text."""
    at = _past(text, 0) + 1  # behind the opening brace
    at = _past(text, at)
    while text[at] != "}":
        name, end = DECODER.raw_decode(text, at)
        begin = _past(text, _past(text, end) + 1)
        _, behind = DECODER.raw_decode(text, begin)
        yield name, text[at:end], text[begin:behind]
        at = _past(text, behind)
        if text[at] == ",":
            at = _past(text, at + 1)


def _past(text: str, at: int) -> int:
    return JSON_SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches everywhere
