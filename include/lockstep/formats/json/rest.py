"""Gathers the fields of a JSON object that a schema does not name, digit for digit."""

from __future__ import annotations

import re
from json import JSONDecoder
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from lockstep.formats.values import storable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

DECODER = JSONDecoder(parse_float=str, parse_int=str)
decode, encode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode, msgspec.json.Encoder().encode
MOST_NAMES = 1_000  # whose order is learned
MOST_LESSONS = 100  # orders that are learned, before others are met record by record
SPACE = re.compile(r"[ \t\r\n]*")


def gathered_rest(text: str, declared: frozenset[str]) -> str | None:
    """Returns a record's other fields as a JSON object, or null. Raises `ValueError` if Postgres could not store it."""
    others = [f"{name}:{value}" for field, name, value in fields_of(text) if field not in declared]
    return storable(f"{{{','.join(others)}}}") if others else None


class QuickGatherer:
    """Gathers the other fields of records that are known to be JSON, and refuses those of which it is not sure.

    It learns in which order records have their fields. A record that is the same, but for spaces, when it is written again in
    that order has no field twice and no name with an escape.
    """

    def __init__(self, declared: frozenset[str]) -> None:
        self._declared = declared
        self._lessons = MOST_LESSONS
        self._learn([])

    def __call__(self, record: bytes) -> str | None:
        """Returns the other fields as a JSON object, or null. Raises `ValueError` or `MsgspecError` if it is not sure."""
        try:
            fields = self._decode(record)
        except msgspec.ValidationError:  # it has a field that was not met before
            return self._learned(record)
        if not _is_same(encode(fields), record):
            return self._learned(record)
        others = [begin + str(value, "utf-8") for begin, get in self._others if (value := get(fields)) is not None]
        return storable(f"{{{','.join(others)}}}") if others else None

    def _learned(self, record: bytes) -> str | None:
        """Gathers the other fields of a record whose order is new."""
        fields = decode(record)
        if not _is_same(encode(fields), record):
            raise ValueError
        if self._lessons and len(fields) + len(self._names) <= MOST_NAMES:
            self._lessons -= 1
            self._learn(merged_order(self._names, list(fields)))
        others = {name: value for name, value in fields.items() if name not in self._declared}
        return storable(encode(others).decode()) if others else None

    def _learn(self, names: list[str]) -> None:
        self._names = names
        fields = fields_struct(
            [(name, msgspec.Raw, None) for name in names], forbid_unknown_fields=True, omit_defaults=True
        )
        self._decode = msgspec.json.Decoder(fields).decode
        self._others = [
            (f"{encode(name).decode()}:", attrgetter(f"field_{place}"))
            for place, name in enumerate(names)
            if name not in self._declared
        ]


def fields_struct(fields: Iterable[tuple[Any, ...]], **options: Any) -> type[msgspec.Struct]:
    """Returns a structure of the fields of a record, each given as name, type and default. Its attributes are numbered."""
    numbered = [(f"field_{place}", *field) for place, field in enumerate(fields)]
    names = {attribute: name for attribute, name, *_ in numbered}
    typed = [(attribute, *typed) for attribute, _, *typed in numbered]
    return msgspec.defstruct("Fields", typed, rename=names, gc=False, **options)


def merged_order(known: Sequence[str], names: Sequence[str]) -> list[str]:
    """Returns all the names, those that were not known behind the ones that they follow, and the given ones in their order."""
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
    found = SPACE.match(text, at)
    return found.end() if found else at
