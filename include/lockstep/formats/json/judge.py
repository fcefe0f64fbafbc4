"""Decodes JSON record by record, in plain Python: each is a row, a deletion, or a reject with its reason."""

from __future__ import annotations

import re
from json import JSONDecoder
from typing import TYPE_CHECKING, Any, NoReturn

from lockstep.core.formats.registered import HEAD_BYTES, MAGIC
from lockstep.formats.json.literal import Literal
from lockstep.formats.json.rest import JSON_SPACE, fields_of, gathered_rest
from lockstep.formats.json.written import key_reader, literal_reader
from lockstep.formats.rows import RecordOutcome

if TYPE_CHECKING:
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.formats import Json

HEADED = "begins with the head of a registry's schema, not with JSON: Json(..., registry=True) reads such records"
NO_OBJECT = "not a JSON object"
TOO_DEEP = f"{NO_OBJECT}: nested deeper than %d"
MOST_DEPTH = 500  # the parser of Python goes about twice as deep, and how deep hangs on who calls it
TEXT_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
NAME_LENGTH = 100  # as much of a field's name as a reason repeats


class JsonJudge:
    """The judge of one pipeline's JSON records. Of a name that occurs twice in a record, the last one counts."""

    def __init__(self, pipeline: Pipeline, format_: Json) -> None:
        self._deletes = pipeline.takes_tombstones
        self._format = format_
        self._names = frozenset(column.name for column in format_.declared)
        self._readers = {column.name: literal_reader(column) for column in format_.declared}
        self._key = next((column for column in format_.columns if column.name == format_.key), None)

    def __call__(self, key: bytes | None, value: bytes | None, _headers: str | None) -> RecordOutcome:
        """Returns the outcome of a record."""
        if value is None:
            return tombstone(key, self._key) if self._deletes else RecordOutcome(reason="null value")
        if not self._format.registry and value.startswith(MAGIC) and len(value) >= HEAD_BYTES:
            return RecordOutcome(reason=HEADED)
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return RecordOutcome(reason="not valid UTF-8")
        try:
            return RecordOutcome(self._values(text))
        except ValueError as error:
            return RecordOutcome(reason=str(error))

    def _values(self, text: str) -> dict[str, Any]:
        fields = parsed_object(text)
        found = {name: fields.get(name) for name in self._readers}
        if any(isinstance(value, dict | list) for value in found.values()):
            literals = {name: Literal(value) for name, _, value in fields_of(text)}
            found = {name: literals[name] if isinstance(v, dict | list) else v for name, v in found.items()}
        values = {name: read(found[name]) for name, read in self._readers.items()}
        if self._format.strict:
            _require_names(fields.keys(), self._names, tuple(self._readers))
        if (rest := self._format.rest) is not None:
            try:
                values[rest] = gathered_rest(text, self._names)
            except ValueError as error:
                raise ValueError(f"column {rest}: {error}") from None
        return values


def tombstone(key: bytes | None, column: Column | None) -> RecordOutcome:
    """Returns the deletion by a Kafka key of plain text. A key that is no value of the column makes a reject."""
    if column is None:
        return RecordOutcome(deleted=True)
    try:
        return RecordOutcome({column.name: key_reader(column)(key)}, deleted=True)
    except ValueError as error:
        return RecordOutcome(reason=str(error), deleted=True)


def parsed_object(text: str) -> dict[str, Any]:
    """Returns the fields of the one object that the text is. Numbers are `Literal`. Raises `ValueError` with a reason."""
    begin = JSON_SPACE.match(text).end()  # type: ignore[union-attr]  # it matches everywhere
    if not text.startswith("{", begin):
        raise ValueError(NO_OBJECT)
    if text.count("{") + text.count("[") > MOST_DEPTH and _depth(text) > MOST_DEPTH:
        raise ValueError(TOO_DEEP % MOST_DEPTH)
    try:
        found, end = LITERALS.raw_decode(text, begin)
    except (ValueError, RecursionError):
        raise ValueError(NO_OBJECT) from None
    if JSON_SPACE.match(text, end).end() < len(text):  # type: ignore[union-attr]  # as above
        raise ValueError("not one JSON object: something follows it")
    fields: dict[str, Any] = found
    return fields


def _depth(text: str) -> int:
    """Returns how deep brackets are nested, those within texts left out."""
    depth = deepest = 0
    for found in TEXT_OR_BRACKET.finditer(text):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(found[0], 0)
        deepest = max(deepest, depth)
    return deepest


def _refuse(_constant: str) -> NoReturn:
    raise ValueError(NO_OBJECT)


LITERALS = JSONDecoder(parse_float=Literal, parse_int=Literal, parse_constant=_refuse)


def _require_names(fields: Any, declared: frozenset[str], in_order: tuple[str, ...]) -> None:
    """Raises `ValueError` for the first field that a strict schema does not have, or that a record lacks."""
    for odd, what in (
        ((name for name in fields if name not in declared), "not in the schema"),
        ((name for name in in_order if name not in fields), "missing"),
    ):
        for name in odd:
            raise ValueError(f"column {CONTROL.sub('?', name)[:NAME_LENGTH]}: {what}")
