"""Reads a target's rows and rejects in the order of their offsets, beside the records of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class MergedRows:
    """A sorted stream of (offset, ordinal) that is asked for one offset after another."""

    def __init__(self, there: Iterator[tuple[int, int]], begin: int) -> None:
        self._there = (each for each in there if each[0] >= begin)
        self._next = next(self._there, None)
        self._strangers: list[int] = []

    def at(self, offset: int) -> list[int]:
        """Returns the ordinals that stand at the offset."""
        self.pass_to(offset)
        found = []
        while self._next is not None and self._next[0] == offset:
            found.append(self._next[1])
            self._next = next(self._there, None)
        return found

    def pass_to(self, offset: int) -> None:
        """Passes over offsets that nobody asked for. They are in the target and not in the log."""
        while self._next is not None and self._next[0] < offset:
            self._strangers.append(self._next[0])
            self._next = next(self._there, None)

    def strangers(self) -> list[int]:
        """Returns the offsets that were passed over since the last call."""
        found, self._strangers = self._strangers, []
        return found
