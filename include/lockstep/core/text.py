"""Formats values as text: for a person, for JSON, and for a terminal that must not obey them."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

BYTE_UNITS = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


def is_utf8(text: str) -> bool:
    """Returns False for a text with half a surrogate pair, which no database and no UTF-8 holds."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_utf8_bytes(value: bytes) -> bool:
    """Returns True for bytes that are valid UTF-8."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def printable_line(text: str) -> str:
    """Returns the text of one line.

    Writes out characters that a terminal would obey, and those that change the reading order.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _named(c) for c in text)


def _named(character: str) -> str:
    return character.encode("unicode_escape").decode()


def cell(value: Any) -> str:
    """Formats a value for a person: times to the second in UTC, and a dash for a missing value."""
    match value:
        case None | [] | ():
            return "-"
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        case float():
            return f"{value:.1f}"
        case list() | tuple():
            return ", ".join(map(cell, value))
        case dict() | memoryview() | bytes() | Decimal() | date():
            return json.dumps(value, default=json_plain, ensure_ascii=False).strip('"')
        case _:
            return str(value)


def json_plain(value: Any) -> Any:
    r"""Converts values that JSON lacks.

    Times become ISO 8601 in UTC, decimals exact strings, and bytes text or `\\x` and hex.
    """
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case bytes() | memoryview():
            return bytes_text(bytes(value))
        case _:
            return str(value)


def bytes_text(value: bytes) -> str:
    """Returns bytes as text, or in Postgres's hexadecimal form if they are no text."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"\\x{value.hex()}"


def size_of_bytes(size: float) -> str:
    """Returns a number of bytes as people read it, such as `1.4 MB`."""
    return next((f"{size / unit:.1f} {name}" for name, unit in BYTE_UNITS if size >= unit), f"{size:.0f} bytes")


def as_plain(value: Any) -> Any:
    """Returns a dataclass as a dict, with the values in it. It costs a third of `asdict`, which copies what cannot change."""
    if value is None or isinstance(value, str | int | float):
        return value
    if is_dataclass(value):
        return {each.name: as_plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, list | tuple):
        return type(value)([as_plain(each) for each in value])
    return {key: as_plain(each) for key, each in value.items()} if isinstance(value, dict) else value
