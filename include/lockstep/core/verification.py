"""What a verification says: one named check after another, each with the first thing that is wrong."""

from __future__ import annotations

from dataclasses import dataclass

EXACT_KEYS = frozenset({"string", "int", "bigint", "smallint"})  # whose text in a record is their text in a row


@dataclass(frozen=True, slots=True)
class Check:
    """One promise, looked at: `detail` says what was compared, or names the first offending partition and offset."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Segment:
    """One batch's range of one stream, with what its committed attempt recorded; sums are of the digest."""

    batch_id: int
    from_offset: int
    until_offset: int
    delivered: int
    filtered: int
    sum: int
    squares: int
