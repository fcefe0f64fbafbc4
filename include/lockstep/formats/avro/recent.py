"""Keeps what was used last, up to a number of entries and a size."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

Value = TypeVar("Value")
MOST_ENTRIES = 1_000
MOST_SIZE = 2**26  # characters of schemas


class Recent(Generic[Value]):
    """The values that were used last. The one that was not used for longest goes first."""

    def __init__(self, most: int = MOST_ENTRIES, most_size: int = MOST_SIZE) -> None:
        self._most, self._most_size = most, most_size
        self._values: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def __getitem__(self, key: Hashable) -> Value:
        self._values.move_to_end(key)
        return self._values[key][0]

    def __setitem__(self, key: Hashable, value: Value) -> None:
        self.put(key, value)

    def put(self, key: Hashable, value: Value, size: int = 0) -> None:
        """Keeps a value of this size, and drops others where there are too many."""
        self._size += size - self._values.pop(key, (None, 0))[1]
        self._values[key] = value, size
        while len(self._values) > 1 and (len(self._values) > self._most or self._size > self._most_size):
            self._size -= self._values.popitem(last=False)[1][1]
