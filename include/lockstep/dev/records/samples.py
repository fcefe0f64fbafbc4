"""Generates sample records. The record at a place of a sample is always the same, wherever a reader begins."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BITS = (1 << 64) - 1
_BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)

# A hundred lives to draw from. A cancelled order is deleted in the end.
_LIVES = (
    *(("placed", "paid", "shipped", "delivered"),) * 92,
    *(("placed", "paid", "cancelled", None),) * 8,
)
# How many orders later each step of an order's life follows: soon, in a while, in another batch.
_LAGS = (0, 25, 400, 3_000)
# The first steps seen are those of orders placed before the topic began.
_PLACED_BEFORE = max(_LAGS)

_PAGES = (
    "/",
    "/search",
    "/basket",
    "/checkout",
    "/account",
    "/help",
    "/offers",
    "/products/{}",
    "/products/{}/reviews",
)

# The ways in which a click can be malformed.
_SPOILED: tuple[Callable[[str], bytes], ...] = (
    lambda value: value[: len(value) // 2].encode(),  # cut off
    lambda value: value.replace('"at":"', '"at":"yesterday, ').encode(),  # no time
    lambda value: (value.replace('"at":"', '"at":{"is":"') + "}").encode(),  # an object for a time
    lambda value: f"<click>{value}</click>".encode(),  # another language
    lambda value: f"[{value}]".encode(),  # a list of what should stand alone
    lambda value: value.encode().replace(b'"url":"', b'"url":"\xff\xfe'),  # no UTF-8
    lambda value: value.replace('"url":"', '"url":"\\u0000').encode(),  # a character that Postgres cannot hold
    lambda _value: b"",  # nothing
)


class SampleRecord(NamedTuple):
    """A key and a value as Kafka takes them. A record without a value is a tombstone."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Sample:
    """An endless sequence of records for one topic."""

    name: str
    topic: str
    at: Callable[[int, int], SampleRecord]
    """The record at a place, under a seed."""

    def records(self, seed: int, first: int, count: int) -> Iterator[SampleRecord]:
        """Returns `count` records from a place on."""
        at = self.at
        return (at(place, seed) for place in range(first, first + count))


def order(place: int, seed: int) -> SampleRecord:
    """Returns one of four steps in an order's life, spread over the sequence. One in fifty is a tombstone."""
    number = (place >> 2) - _LAGS[place & 3] + _PLACED_BEFORE
    drawn = draw(number, seed)
    status = _LIVES[drawn % 100][place & 3]
    key = f"o-{number:09d}"
    if status is None:
        return SampleRecord(key.encode(), None)
    cents = 199 + (drawn >> 24) % 50_000
    value = (
        f'{{"order_id":"{key}","customer":"c-{(drawn >> 8) % 5_000:04d}",'
        f'"amount":"{cents // 100}.{cents % 100:02d}","status":"{status}","placed_at":"{instant(number)}"}}'
    )
    return SampleRecord(key.encode(), value.encode())


def click(place: int, seed: int) -> SampleRecord:
    """Returns one click. One in fifty comes up to two hours late, and one in a hundred is malformed."""
    drawn = draw(place, seed)
    user = f"u-{drawn % 2_000:04d}"
    late = (drawn >> 11) % 7_200 if (drawn >> 24) % 50 == 0 else 0
    url = _PAGES[(drawn >> 30) % len(_PAGES)].format((drawn >> 34) % 300)
    at = instant(7_200 + place // 100 - late)
    value = f'{{"click_id":"k-{place:012d}","user":"{user}","url":"{url}","at":"{at}"}}'
    if (drawn >> 44) % 100 == 0:
        return SampleRecord(user.encode(), _SPOILED[(drawn >> 51) % len(_SPOILED)](value))
    return SampleRecord(user.encode(), value.encode())


def draw(place: int, seed: int) -> int:
    """Returns 64 bits that look random and depend on place and seed alone, by the finaliser of splitmix64."""
    mixed = (place * 0x9E3779B97F4A7C15 + (seed + 1) * 0xD1B54A32D192ED03) & _BITS
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _BITS
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _BITS
    return mixed ^ (mixed >> 31)


def instant(seconds: int) -> str:
    """Returns the moment `seconds` after the samples' beginning, in ISO 8601."""
    return f"{_minute(seconds // 60)}:{seconds % 60:02d}Z"


@lru_cache(maxsize=10_000)
def _minute(minutes: int) -> str:
    return (_BEGINNING + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M")
