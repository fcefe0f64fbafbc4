"""Replaces the keywords of JSON Schema whose usual code is inexact, or may take a time without a bound."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from jsonschema import ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Keyword = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]

MOST_WITHIN = 200  # keywords within each other: Python's own limit is near 300
ESCAPED_UNIT = re.compile(r"(?<!\\)((?:\\\\)*)\\u([0-9a-fA-F]{4})")
REPETITION = re.compile(r"\{([0-9]{1,4})(?:,([0-9]{0,4}))?\}")
PATTERN_PARTS_A_CHECK = 64  # letters and repetitions of a pattern that cost as much as a check
NAMES_A_CHECK = 20  # values, names or schemas that a keyword goes through in the time of a check
SHOWN_PATTERN = 100  # characters of a pattern in a reason


class CheckBudget:
    """The checks that one record may still cost. Raises `ValueError` when they are spent, or lie too deep."""

    def __init__(self, most: int, limit: str = "record_limits.values") -> None:
        self._most, self._limit = most, limit
        self.renew()

    def renew(self) -> None:
        """Begins with the next record."""
        self._left, self._within = self._most, 0

    def bounded(self, keyword: Keyword) -> Keyword:
        """Returns the keyword, counted."""

        def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
            self._left -= 1 + _more_checks(value, instance, schema)
            self._within += 1
            if self._left < 0:
                raise ValueError(f"takes more than {self._most} checks, which is the limit ({self._limit})")
            if self._within > MOST_WITHIN:
                raise ValueError(f"takes more than {MOST_WITHIN} checks within each other, which is the limit")
            try:
                yield from keyword(validator, value, instance, schema) or ()
            finally:
                self._within -= 1

        return check


def _more_checks(value: Any, instance: Any, schema: Any) -> int:
    """Returns how many checks more than one the keyword of this value costs."""
    if isinstance(value, str):
        return pattern_cost(value)
    patterns = schema.get("patternProperties") if isinstance(schema, dict) else None
    by_patterns = value is patterns or (patterns and value is schema.get("additionalProperties"))
    if by_patterns and isinstance(patterns, dict) and isinstance(instance, dict):
        return len(instance) * sum(1 + pattern_cost(pattern) for pattern in patterns)
    return len(value) // NAMES_A_CHECK if isinstance(value, list | dict) else 0


def pattern_cost(pattern: str) -> int:
    """Returns how many checks more than one a pattern costs. RE2 writes repetitions out, and makes it anew each time."""
    if len(pattern) < PATTERN_PARTS_A_CHECK and "{" not in pattern:
        return 0
    repeated = sum(int(most or least) for least, most in REPETITION.findall(pattern))
    return (len(pattern) + repeated) // PATTERN_PARTS_A_CHECK


def matches(pattern: str, text: str) -> bool:
    """Returns True if the pattern is found in the text, in a time that grows with the text alone.

    Raises `ValueError` for a pattern that nothing can look for so, as one with a lookahead.
    """
    try:
        found = pc.match_substring_regex(pa.scalar(text), ESCAPED_UNIT.sub(r"\1\\x{\2}", pattern))
    except pa.ArrowInvalid:
        shown = json.dumps(pattern[:SHOWN_PATTERN])
        raise ValueError(f"has the pattern {shown}, which RE2 cannot look for in linear time") from None
    return bool(found.as_py())


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not matches(pattern, instance):
        yield ValidationError("pattern")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: Any, _: Any
) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for pattern, schema in patterns.items():
            for name, value in instance.items():
                if matches(pattern, name):
                    yield from validator.descend(value, schema, path=name, schema_path=pattern)


def _additional(validator: Any, allowed: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[ValidationError]:
    if not isinstance(instance, dict) or allowed is True:
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, value in instance.items():
        if name not in known and not any(matches(pattern, name) for pattern in patterns):
            if allowed is False:
                yield ValidationError("additional", path=[name])
            else:
                yield from validator.descend(value, allowed, path=name)


def _any_of(validator: Any, schemas: Iterable[Any], instance: Any, _schema: Any) -> Iterator[ValidationError]:
    """Stops at the first schema that allows the value, and gathers no errors of the others."""
    if not any(_allows(validator, each, instance) for each in schemas):
        yield ValidationError("is not valid under any of the given schemas")


def _one_of(validator: Any, schemas: Iterable[Any], instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if sum(_allows(validator, each, instance) for each in schemas) != 1:
        yield ValidationError("oneOf")


def _allows(validator: Any, schema: Any, instance: Any) -> bool:
    return next(iter(validator.descend(instance, schema)), None) is None


def _multiple_of(_validator: Any, divisor: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if is_json_number(instance) and not is_multiple(instance, divisor):
        yield ValidationError("multipleOf")


def _unique_items(_validator: Any, wanted: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if wanted and isinstance(instance, list) and len({_identity(each) for each in instance}) < len(instance):
        yield ValidationError("has non-unique elements")


BOUNDED: Mapping[str, Keyword] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "multipleOf": _multiple_of,
    "uniqueItems": _unique_items,
}


def is_json_number(value: Any) -> bool:
    """Returns True for a number of JSON, which is an `int` or a `Decimal` here."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def is_whole(_checker: Any, value: Any) -> bool:
    """Returns True for a whole number, as 1 and 1.0 are since draft 6."""
    return is_json_number(value) and (isinstance(value, int) or _parts(value)[1] >= 0)


def is_multiple(number: int | Decimal, divisor: int | Decimal) -> bool:
    """Returns True if the number is a multiple of the divisor, to the last digit and for every exponent."""
    (one, its_exponent), (other, other_exponent) = _parts(number), _parts(divisor)
    shift = its_exponent - other_exponent
    # Neither ends with zeros, so a multiple has no smaller exponent.
    return one == 0 or (shift >= 0 and one * pow(10, shift, other) % other == 0)


def _parts(number: int | Decimal) -> tuple[int, int]:
    """Returns digits and exponent of a number, without the zeros that it ends with."""
    sign, digits, exponent = Decimal(number).as_tuple()
    if not isinstance(exponent, int):
        raise TypeError("not a finite number")
    text = "".join(map(str, digits)).rstrip("0")
    whole = int(text or "0")
    return (-whole if sign else whole), (exponent + len(digits) - len(text) if whole else 0)


def _identity(value: Any) -> Any:
    """Returns what two equal values share, and no other ones do."""
    if isinstance(value, list):
        return list, tuple(_identity(each) for each in value)
    if isinstance(value, dict):
        return dict, frozenset((name, _identity(each)) for name, each in value.items())
    return _parts(value) if is_json_number(value) else (type(value), value)
