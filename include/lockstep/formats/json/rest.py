"""Gathers the fields of a JSON object that a schema does not name, digit for digit."""

from __future__ import annotations

import re
from json import JSONDecoder
from typing import TYPE_CHECKING

from lockstep.formats.values import storable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DECODER = JSONDecoder(parse_float=str, parse_int=str)
SPACE = re.compile(r"[ \t\r\n]*")


def gatherer(declared: frozenset[str]) -> Callable[[str], tuple[str | None, str | None]]:
    """Returns a function from a record's text to its other fields as a JSON object, or null, and a fault."""

    def gather(text: str) -> tuple[str | None, str | None]:
        try:
            others = [f"{name}:{value}" for field, name, value in fields_of(text) if field not in declared]
            return (storable(f"{{{','.join(others)}}}") if others else None), None
        except (ValueError, IndexError, RecursionError) as error:
            return None, str(error) or "is nested too deep"

    return gather


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
