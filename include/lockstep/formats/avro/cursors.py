"""Steps over the bytes of many Avro or Protobuf records at once. Each has a cursor that never leaves its own bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    Places = np.ndarray[Any, np.dtype[np.int64]]
    Flags = np.ndarray[Any, np.dtype[np.bool_]]
    Bytes = np.ndarray[Any, np.dtype[np.uint8]]

LAST_BYTE_BELOW = 0x80
SEVEN_BITS = 0x7F
TENTH_BYTE_SHIFT = 63  # of a number's tenth byte, in which one bit is left


class Cursors:
    """Cursors over records that lie one behind another in `data`.

    A record that breaks a rule is refused: it is not `good`, and its cursor stays at its end. So a cursor lies between
    `begins` and `ends` of its record, whatever the bytes say. `rows` are places of records, in order.
    """

    def __init__(self, data: pa.Buffer, begins: Places, ends: Places) -> None:
        self._buffer = data
        self._bytes: Bytes = np.frombuffer(data, np.uint8)
        self._at, self._ends = begins.copy(), ends
        self.good: Flags = np.ones(len(begins), np.bool_)

    def rows(self) -> Places:
        """Returns the places of all records."""
        return np.arange(len(self.good))

    def refuse(self, rows: Places, bad: Flags) -> None:
        """Refuses the records of these rows that are flagged."""
        if bad.any():
            refused = rows[bad]
            self.good[refused] = False
            self._at[refused] = self._ends[refused]

    def numbers(self, rows: Places) -> Places:
        """Reads a zigzag number of at most 64 bits from each row. A refused row has any number."""
        values = self.varints(rows)
        return (values >> np.uint64(1)).view(np.int64) ^ -(values & np.uint64(1)).view(np.int64)

    def varints(self, rows: Places) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """Reads a number of at most 64 bits, seven to a byte, from each row. A refused row has any number."""
        at, ends = self._at[rows], self._ends[rows]
        bad = at >= ends
        byte = self._byte(at)
        values = (byte & SEVEN_BITS).astype(np.uint64)
        at += 1
        longer = np.flatnonzero((byte >= LAST_BYTE_BELOW) & ~bad)
        for shift in range(7, TENTH_BYTE_SHIFT + 1, 7):
            if not len(longer):
                break
            where = at[longer]
            byte = self._byte(where)
            wrong = where >= ends[longer]
            if shift == TENTH_BYTE_SHIFT:
                wrong |= byte > 1
            bad[longer[wrong]] = True
            values[longer] |= (byte & SEVEN_BITS).astype(np.uint64) << np.uint64(shift)
            at[longer] = where + 1
            longer = longer[~wrong & (byte >= LAST_BYTE_BELOW)]
        self._at[rows] = at
        self.refuse(rows, bad)
        return values

    def tagged(self, tag: bytes) -> Places:
        """Returns the rows whose next bytes are these, and steps over them."""
        found = self._ends - self._at >= len(tag)
        for place, byte in enumerate(tag):
            found &= self._byte(self._at + place if place else self._at) == byte
        if found.all():
            self._at += len(tag)
            return self.rows()
        self._at[found] += len(tag)
        return np.flatnonzero(found)

    def spans(self, rows: Places, sizes: Places) -> tuple[Places, Places]:
        """Steps over so many bytes in each row, and returns where they begin and end. A refused row has none."""
        begins = self._at[rows]
        bad = (sizes < 0) | (sizes > self._ends[rows] - begins)
        if bad.any():
            sizes = np.where(bad, 0, sizes)
        ends = begins + sizes
        self._at[rows] = ends
        self.refuse(rows, bad)
        return begins, ends

    def fixed(self, rows: Places, size: int) -> Bytes:
        """Reads so many bytes from each row, as a row of a matrix. A refused row has any bytes."""
        begins, _ = self.spans(rows, np.full(len(rows), size))
        return self._byte(begins[:, None] + np.arange(size))

    def texts(self, rows: Places, sizes: Places) -> pa.Array:
        """Reads so many bytes from each row, as `binary`. A refused row has none."""
        begins, ends = self.spans(rows, sizes)
        # The bytes of a row, and those between it and the next: every second value is a row's.
        offsets = np.stack([begins, ends], axis=1).astype(np.int32).ravel()
        parts = [None, pa.py_buffer(offsets), self._buffer]
        both = pa.Array.from_buffers(pa.binary(), max(len(offsets) - 1, 0), parts)
        both.validate(full=True)  # else a wrong offset would read other memory, or end the process
        return both.take(pa.array(np.arange(0, len(offsets), 2)))

    def big_endian(self, rows: Places, sizes: Places) -> tuple[Places, Places]:
        """Reads signed numbers of up to 16 bytes, as their high and their low 64 bits. Refuses longer ones."""
        begins, ends = self.spans(rows, sizes)
        sizes = ends - begins
        self.refuse(rows, sizes > 16)  # noqa: PLR2004 - two halves of 8 bytes
        sign = np.where((sizes > 0) & (self._byte(begins) >= LAST_BYTE_BELOW), -1, 0)
        halves = []
        for first in (8, 0):
            half = sign.copy()
            for place in reversed(range(first, min(first + 8, int(sizes.max(initial=0))))):
                byte = np.where(place < sizes, self._byte(ends - 1 - place), sign & 0xFF)
                half = (half << 8) | byte
            halves.append(half)
        return halves[0], halves[1]

    def finish(self) -> None:
        """Refuses records whose bytes are not at their end."""
        rows = self.rows()
        self.refuse(rows, self._at < self._ends)

    def _byte(self, where: Places) -> Bytes:
        """Returns the bytes at these places, or any byte for a place that lies outside."""
        return self._bytes.take(where, mode="clip")
