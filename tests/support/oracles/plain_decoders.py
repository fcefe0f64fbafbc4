"""Decodes the hostile set with code that shares nothing with the product.

Returns a row only if it is beyond doubt.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

JSON_DEPTH = 500
DOUBT = object()  # one parser may take it and another may not
REJECT = None
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")
MOST_DIGITS, LONG_NAME = 400, 10_000
AVRO_DEPTH, AVRO_VALUES = 100, 1_000_000


class Wrong(Exception):  # noqa: N818 - an answer
    """Bytes that are no such record."""


def json_row(value: bytes | None) -> Any:
    """Returns the row of a JSON record: values, REJECT or DOUBT.

    The columns are `id string, n int, amount decimal(12,2), at timestamp, ok boolean`.
    """
    if value is None:
        return REJECT
    try:
        found = json.loads(
            value.decode(), parse_float=_Written, parse_int=_Written, parse_constant=_no, object_pairs_hook=_once
        )
    except RecursionError:
        return DOUBT
    except ValueError:
        return REJECT
    if found is DOUBT or not isinstance(found, dict):
        return found if found is DOUBT else REJECT
    if _depth(found) > JSON_DEPTH:
        return REJECT
    takers = {"id": _text, "n": _int, "amount": _amount, "at": _moment, "ok": _truth}
    row = {name: None if found.get(name) is None else take(found[name]) for name, take in takers.items()}
    made = list(row.values())
    return REJECT if any(each is _FAULT for each in made) else DOUBT if any(each is DOUBT for each in made) else row


def avro_row(body: bytes, schema_id: int, flat_id: int) -> dict[str, Any] | None:
    """Returns the row of `hostile.AVRO`, or of its first three fields if that is its schema, or REJECT."""
    its_id = int.from_bytes(body[1:5], "big")
    if body[:1] != b"\0" or len(body) < 5 or its_id not in {schema_id, flat_id}:
        return REJECT
    try:
        return _Avro(body[5:]).row(flat=its_id == flat_id)
    except Wrong:
        return REJECT


def _depth(found: Any) -> int:
    """Returns how many objects and lists lie in each other."""
    depth, level = 0, [found]
    while level:
        inner = [
            list(each.values()) if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)
        ]
        depth, level = depth + bool(inner), [one for each in inner for one in each]
    return depth


class _Written(str):
    """A number as it is written."""

    __slots__ = ()


_FAULT = object()


def _no(text: str) -> None:
    raise ValueError(text)


def _once(pairs: list[tuple[str, Any]]) -> Any:
    made = dict(pairs)
    if any(len(name) > LONG_NAME for name in made):
        return DOUBT
    return made if len(made) == len(pairs) and not any(value is DOUBT for value in made.values()) else DOUBT


def _text(value: Any) -> Any:
    if isinstance(value, _Written) or not isinstance(value, str):
        return DOUBT
    if "\0" in value:
        return _FAULT
    return DOUBT if any("\ud800" <= letter <= "\udfff" for letter in value) else value


def _int(value: Any) -> Any:
    if not isinstance(value, _Written):
        return _FAULT
    if not re.fullmatch(r"-?[1-9]\d*|0", value):
        return DOUBT if value in {"-0", "-0.0"} or "e" in value.lower() or "." in value else _FAULT
    return int(value) if len(value) < 15 and -(2**31) <= int(value) < 2**31 else _FAULT


def _amount(value: Any) -> Any:
    if not isinstance(value, _Written):
        return DOUBT if isinstance(value, str) else _FAULT
    if len(value) > MOST_DIGITS or "e" in value.lower():
        return DOUBT
    number = Decimal(value)
    try:
        fits = number == number.quantize(Decimal("0.01")) and abs(number) < 10**10
    except InvalidOperation:
        fits = False
    return number if fits else _FAULT


def _moment(value: Any) -> Any:
    if isinstance(value, str) and MOMENT.fullmatch(value):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            return DOUBT
    return DOUBT


def _truth(value: Any) -> Any:
    return value if isinstance(value, bool) else _FAULT


class _Avro:
    """A reader of `id string, n int, amount bytes, x union` from the front. If `flat`, without the last."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at, self._values = body, 0, 0

    def row(self, *, flat: bool) -> dict[str, Any]:
        text = self._bytes()
        number = self._long()
        amount = int.from_bytes(self._bytes(), "big", signed=True)
        if not flat:
            self._union(1)
        if self._at != len(self._body) or not -(2**31) <= number < 2**31 or abs(amount) >= 10**9:
            raise Wrong
        try:
            decoded = text.decode()
        except UnicodeDecodeError:
            raise Wrong from None
        if "\0" in decoded:
            raise Wrong
        return {"id": decoded, "n": number, "amount": Decimal(amount).scaleb(-2)}

    def _union(self, depth: int) -> None:
        match self._long():
            case 0:
                return
            case 1:
                self._blocks(lambda: None)
            case 2:
                self._linked(depth + 1)
            case 3:
                self._blocks(lambda: (self._utf8(), self._bytes()))
            case _:
                raise Wrong

    def _linked(self, depth: int) -> None:
        while True:
            if depth > AVRO_DEPTH:
                raise Wrong
            match self._long():
                case 0:
                    return
                case 1:
                    depth += 1
                case _:
                    raise Wrong

    def _blocks(self, item: Any) -> None:
        while count := self._long():
            if count < 0:
                count = -count
                if self._long() < 0:
                    raise Wrong
            self._values += count
            if self._values > AVRO_VALUES:
                raise Wrong
            for _ in range(count):
                item()

    def _utf8(self) -> None:
        try:
            self._bytes().decode()
        except UnicodeDecodeError:
            raise Wrong from None

    def _bytes(self) -> bytes:
        size = self._long()
        if not 0 <= size <= len(self._body) - self._at:
            raise Wrong
        self._at += size
        return self._body[self._at - size : self._at]

    def _long(self) -> int:
        made = shift = 0
        while True:
            if self._at >= len(self._body) or shift > 63:
                raise Wrong
            byte = self._body[self._at]
            self._at += 1
            made |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if made >= 2**64:
            raise Wrong
        return (made >> 1) ^ -(made & 1)
