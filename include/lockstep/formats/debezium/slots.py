"""Turns the text of one change record into a pattern: names and order stay, values may be others."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from lockstep.formats.values import BITS

if TYPE_CHECKING:
    from collections.abc import Mapping

NUMBER = r"-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?(?:[eE][-+]?[0-9]{1,3})?"
PLAIN_TEXT = r'"[^"\\\x00-\x1f]*"'  # without an escape, so that it says what it is
ESCAPED_TEXT = r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt])*"'
ANY_VALUE = rf"{PLAIN_TEXT}|{NUMBER}|true|false|null"
PLAIN_VALUES = {
    "string": r'(?:"([^"\\\x00-\x1f]*)"|null)',
    "boolean": "(?:(true|false)|null)",
    **dict.fromkeys(BITS, "(?:(0|-?[1-9][0-9]{0,17})|null)"),
}
ALWAYS_NULL, ANY_KIND = "null", "any"  # kinds of columns beside the plain ones
OPERATION, AFTER, SOURCE = ("op",), "after", "source"
LSN, SEQUENCE, TIME_FIELD = "lsn", "sequence", "ts_ms"
MOST_PATTERN = 2**19  # characters. A regular expression takes some microseconds a character to compile.
# What Postgres says of a place, if it says it in the usual way.
LSN_VALUE, TIME_VALUE = "([1-9][0-9]{0,17})", "([0-9]{1,18})"
SEQUENCE_VALUE = r'"\[\\"([0-9]{1,18})\\", ?\\"[0-9]{1,18}\\"\]"'
PLACE_PARTS = frozenset(
    {
        LSN,
        SEQUENCE,
        TIME_FIELD,
        "file",
        "pos",
        "row",
        "scn",
        "commit_scn",
        "commit_lsn",
        "change_lsn",
        "event_serial_no",
    }
)
_WORD = re.compile(rf'[ \t\n\r]+|[{{}}\[\],:]|"(?:[^"\\]|\\.)*"|{NUMBER}|true|false|null')
WRAPPED_NAMES = ["schema", "payload"]


class Slots(NamedTuple):
    """The pattern of a record behind its `head`, and the path of each value that it captures.

    `by_lsn` says that the place of a change is captured as the numbers that Postgres gives.
    """

    head: str
    pattern: str
    paths: tuple[tuple[str, ...], ...]
    by_lsn: bool


def slots_of(text: str, kinds: Mapping[str, str], source: Mapping[str, object], *, is_ordered: bool) -> Slots | None:
    """Returns the pattern of a record that was decoded. `kinds` are those of the columns' values.

    `source` is what the record says of its source. Returns None for a record that is written in an unusual way, or that has
    too many values.
    """
    walk = _Walk(text, kinds, is_ordered=is_ordered, by_lsn=_is_usual(source))
    slots = walk.done() if walk.goes_through() else None
    return slots if slots is not None and len(slots.pattern) <= MOST_PATTERN else None


def _is_usual(source: Mapping[str, object]) -> bool:
    """Returns True if Postgres' numbers say where the change is."""
    sequence = source.get(SEQUENCE)
    return (
        type(source.get(LSN)) is int
        and type(source.get(TIME_FIELD)) in {int, type(None)}
        and (sequence is None or re.fullmatch(r'\["[0-9]{1,18}", ?"[0-9]{1,18}"\]', str(sequence)) is not None)
    )


class _Walk:
    """A walk over the tokens of one record."""

    def __init__(self, text: str, kinds: Mapping[str, str], *, is_ordered: bool, by_lsn: bool) -> None:
        self._text = text
        self._kinds = kinds
        self._is_ordered = is_ordered
        self._by_lsn = by_lsn
        self._names: list[str | None] = []  # of the objects that are open, None in an array
        self._outer: list[str] = []
        self._pieces: list[str] = []
        self._paths: list[tuple[str, ...]] = []
        self._head = 0

    def goes_through(self) -> bool:
        """Walks, and returns False where the text is not what is expected."""
        at, wants_name = 0, False
        while at < len(self._text):
            found = _WORD.match(self._text, at)
            if found is None:
                return False
            word, at = found[0], found.end()
            if word in "{[":
                self._names.append("" if word == "{" else None)
                wants_name = word == "{"
            elif word in "}]":
                self._names.pop()
            elif word == ",":
                wants_name = self._names[-1] is not None
            elif word == ":" or word.isspace():
                pass
            elif wants_name:
                if "\\" in word:
                    return False
                self._name(word[1:-1])
                wants_name = False
            else:
                self._pieces.append(self._value(word))
                continue
            self._pieces.append(re.escape(word))
            if word == ":" and self._outer == WRAPPED_NAMES and len(self._names) == 1:
                self._head, self._pieces = at, []
        return True

    def done(self) -> Slots:
        return Slots(self._text[: self._head], "".join(self._pieces), tuple(self._paths), self._by_lsn)

    def _name(self, name: str) -> None:
        self._names[-1] = name
        if len(self._names) == 1:
            self._outer.append(name)

    def _value(self, word: str) -> str:
        """Returns the pattern of a value."""
        path = tuple(name for name in self._names if name is not None)
        if len(path) < len(self._names) or path[0] == WRAPPED_NAMES[0]:
            return re.escape(word)  # an array stays as it is, and so does a schema
        path = path[1:] if self._outer == WRAPPED_NAMES else path
        match path:
            case ("op",):
                return self._captured(path, '"([cru])"')
            case ("after", name) if name in self._kinds:
                kind = self._kinds[name]
                return (
                    ALWAYS_NULL
                    if kind == ALWAYS_NULL
                    else self._captured(path, PLAIN_VALUES.get(kind, f"({ANY_VALUE})"))
                )
            case ("source", "snapshot"):
                return re.escape(word)
            case ("source", name) if self._is_ordered and name in PLACE_PARTS:
                return self._place(path, name, word)
        return f"(?:{_any_as(word)})"

    def _place(self, path: tuple[str, ...], name: str, word: str) -> str:
        """Returns the pattern of a part of the place in the source's log."""
        if not self._by_lsn:
            return self._captured(path, f"({_any_as(word)})")
        if word == ALWAYS_NULL or name not in {LSN, SEQUENCE, TIME_FIELD}:
            return re.escape(word) if word == ALWAYS_NULL else f"(?:{_any_as(word)})"
        return self._captured(path, {LSN: LSN_VALUE, SEQUENCE: SEQUENCE_VALUE, TIME_FIELD: TIME_VALUE}[name])

    def _captured(self, path: tuple[str, ...], pattern: str) -> str:
        self._paths.append(path)
        return pattern


def _any_as(word: str) -> str:
    """Returns the pattern of any value, with escapes in a text if this one has some."""
    return f"{ESCAPED_TEXT}|null" if "\\" in word else ANY_VALUE


def json_value(word: str) -> Any:
    """Returns what a value's text says."""
    if word[0] == '"':
        return json.loads(word) if "\\" in word else word[1:-1]
    if word in JSON_WORDS:
        return JSON_WORDS[word]
    return Decimal(word) if set(word) & set(".eE") else int(word)


JSON_WORDS = {"null": None, "true": True, "false": False}
