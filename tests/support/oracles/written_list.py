"""Reads the written list of statements that roles may execute: tests/ledger/accepted_statements.txt."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIELDS = 5
OPEN, WORDS = "# Open holes", "not noticed by any check"


@dataclass(frozen=True, slots=True)
class Allowed:
    """One entry of a line: a role, a kind of statement, an object, a part of it and how that changes, and the line's reason."""

    role: str
    key: tuple[str, str, str, str]
    reason: str
    is_open: bool


def written_list(file: Path) -> list[Allowed]:
    """Returns the entries of each line. A line that is not whole, or has no reason, raises `ValueError`."""
    text, _, holes = file.read_text(encoding="utf-8").partition(OPEN)
    return [*_entries(text, is_open=False), *_entries(holes.partition("\n")[2], is_open=True)]


def _entries(text: str, *, is_open: bool) -> Iterator[Allowed]:
    for line in text.replace("\n ", " ").splitlines():
        if not line or line.startswith("#"):
            continue
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != FIELDS or not fields[4]:
            raise ValueError(f"a line has kind, roles, objects, parts and a reason: {line}")
        if is_open != (WORDS in fields[4]):
            raise ValueError(f"an open hole, and no other line, says {WORDS!r}: {line}")
        kind, roles, objects, parts, reason = fields
        each = product(roles.split(", "), objects.split(", "), _parts(kind, parts))
        for role, thing, (part, how) in each:
            yield Allowed(role, (kind, thing, part, how), reason, is_open)


def _parts(kind: str, parts: str) -> Iterator[tuple[str, str]]:
    """Yields each part and how it changes. Only columns change in a named way."""
    for part in parts.split(", "):
        name, *ways = part.split(" ") if kind in ("update", "close") else [part]
        yield from ((name, how) for how in ways or [""])
