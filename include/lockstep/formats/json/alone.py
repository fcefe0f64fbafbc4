"""Decodes JSON record by record in plain Python, and marks the columns over which parsers may differ."""

from __future__ import annotations

import json
import re
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from lockstep.core.pipeline.columns import NUL, NUL_REASON
from lockstep.core.text import is_utf8
from lockstep.formats.json.alike import MOMENTS
from lockstep.formats.json.rest import gatherer
from lockstep.formats.rows import RecordOutcome
from lockstep.formats.values import BITS, PLAIN, taker

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.formats import Json

UNSURE = object()  # a value that one parser takes and another refuses, or reads otherwise
# Jackson refuses what is longer: a name or a text by its UTF-16 units, a number by its characters.
MOST_NAME, MOST_TEXT, MOST_NUMBER = 50_000, 20_000_000, 1_000
UNITS = 2  # of a character, at most
WHOLE_NUMBER = re.compile(r"^-?\d{1,18}\Z")


class Unsure(Exception):  # noqa: N818 - it is an answer, not a fault
    """No column of the record is certain: parsers may differ over all of it."""


class JsonAlone:
    """The judge of one pipeline's JSON records. `UNSURE` marks a value that Spark's parser may read differently."""

    def __init__(self, pipeline: Pipeline, format_: Json) -> None:
        self._deletes = pipeline.takes_tombstones
        self._format = format_
        self._names = frozenset(column.name for column in format_.declared)
        self._takers = {column.name: _taker(column) for column in format_.declared}
        self._gather = gatherer(self._names) if format_.rest is not None else None
        self._key = next((column for column in format_.columns if column.name == format_.key), None)

    def __call__(self, key: bytes | None, value: bytes | None, _headers: str | None) -> RecordOutcome:
        """Returns the outcome of a record. Raises `Unsure` if no column of it is certain."""
        if value is None:
            return self._tombstone(key) if self._deletes else RecordOutcome(reason="null value")
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return RecordOutcome(reason="not valid UTF-8")
        fields = _fields(text)
        if self._format.strict and fields.keys() != self._names:
            return RecordOutcome(reason="its fields are not the schema's")
        try:
            values = {name: take(fields.get(name)) for name, take in self._takers.items()}
            rest = self._rest(text)
        except ValueError as error:
            return RecordOutcome(reason=str(error))
        return RecordOutcome(values | rest)

    def _rest(self, text: str) -> dict[str, Any]:
        if self._gather is None or self._format.rest is None:
            return {}
        gathered, fault = self._gather(text)
        if fault:
            raise ValueError(f"column {self._format.rest}: {fault}")
        return {self._format.rest: gathered}

    def _tombstone(self, key: bytes | None) -> RecordOutcome:
        return tombstone(key, self._key)


def tombstone(key: bytes | None, column: Column | None) -> RecordOutcome:
    """Returns the deletion by a Kafka key of plain text. Raises `Unsure` if the key may or may not fit the column."""
    if column is None:
        return RecordOutcome(deleted=True)
    try:
        text = None if key is None else key.decode()
    except UnicodeDecodeError:
        text = None
    if text is None or NUL in text:
        return RecordOutcome(reason=f"tombstone: its key is not a {column.type}", deleted=True)
    if column.type == "string":
        return RecordOutcome({column.name: text}, deleted=True)
    if column.type in BITS and WHOLE_NUMBER.match(text) and int(text).bit_length() < BITS[column.type]:
        return RecordOutcome({column.name: int(text)}, deleted=True)
    raise Unsure


class _Object(dict[str, Any]):
    """An object's fields. `doubled` if a name occurs twice: parsers then take one or the other."""

    doubled = False


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    made = _Object(pairs)
    made.doubled = len(made) < len(pairs)
    if any(len(name) * UNITS > MOST_NAME for name in made):
        raise Unsure
    return made


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def _integer(text: str) -> int:
    return _no_number(text) if text == "-0" or len(text) > MOST_NUMBER else int(text)


def _fraction(text: str) -> Decimal:
    return _no_number(text) if len(text) > MOST_NUMBER else Decimal(text)


def _fields(text: str) -> _Object:
    try:
        found = json.loads(
            text, parse_float=_fraction, parse_int=_integer, parse_constant=_no_number, object_pairs_hook=_object
        )
    except (ValueError, ArithmeticError, RecursionError):
        raise Unsure from None
    if not isinstance(found, _Object) or found.doubled:
        raise Unsure
    return found


def _taker(column: Column) -> Callable[[Any], Any]:
    """Returns a function from a parsed value to the column's. It raises `ValueError` if no parser takes the value."""
    kinds = {"string": _text, "boolean": _truth, "float": _real, "double": _real, "date": _moment, "timestamp": _moment}
    take = kinds.get(column.type, _exact if column.type != "binary" else _never)(column)
    return lambda value: None if value is None else take(value)


def _never(_column: Column) -> Callable[[Any], Any]:
    return lambda _: UNSURE


def _exact(column: Column) -> Callable[[Any], Any]:
    """Returns a function for whole numbers and decimals. It takes those that fit and leaves the others to Spark."""
    exact = taker(column)

    def number(value: Any) -> Any:
        try:
            return exact(value)
        except ValueError:
            return UNSURE

    return number


def _text(column: Column) -> Callable[[Any], Any]:
    def text(value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool) and WHOLE_NUMBER.match(str(value)):
            return str(value)
        if not isinstance(value, str):
            return UNSURE  # Spark writes other values out as text
        if NUL in value:
            raise ValueError(f"column {column.name}: {NUL_REASON}")
        return value if len(value) * UNITS <= MOST_TEXT and is_utf8(value) else UNSURE

    return text


def _real(column: Column) -> Callable[[Any], Any]:
    def real(value: Any) -> Any:
        if not isinstance(value, int | Decimal) or isinstance(value, bool):
            return UNSURE
        try:
            number = pa.scalar(str(value)).cast(PLAIN[column.type]).as_py()
        except pa.ArrowInvalid:
            return UNSURE
        return number if abs(number) < float("inf") else UNSURE

    return real


def _moment(column: Column) -> Callable[[Any], Any]:
    pattern, first, last = MOMENTS[column.type]
    read = date.fromisoformat if column.type == "date" else datetime.fromisoformat

    def moment(value: Any) -> Any:
        if not isinstance(value, str) or not value.isascii() or not re.match(pattern, value):
            return UNSURE
        try:
            made: Any = read(value)
        except (ValueError, OverflowError):
            return UNSURE
        return made if first <= made <= last else UNSURE

    return moment


def _truth(_column: Column) -> Callable[[Any], Any]:
    return lambda value: value if isinstance(value, bool) else UNSURE
