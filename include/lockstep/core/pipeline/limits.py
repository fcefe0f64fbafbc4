"""Defines the limits of one batch, and of one record. A record past a limit is a reject, and stops no reader."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from lockstep.core.errors import BadDefinition
from lockstep.core.records import HEADERS_UNIT
from lockstep.core.text import as_plain

MEGABYTE = 2**20
MOST_DAYS = 36_500
MOST_RECORD_BYTES = 512 * MEGABYTE  # the most that the JVM, Arrow and Postgres all hold in one value
MOST_RECORD_SECONDS = 86_400  # without progress: a day
ADDED_LIMITS = {"headers", "seconds"}  # later than the others: a definition without them keeps its hash
MOST_RECORD_HEADERS = 100_000  # of a record with more, librdkafka gives none

TOO_MANY_HEADERS = "has {} headers; the limit is {} (record_limits.headers); key, value and headers are not kept"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one batch: offsets in all and per partition, bytes, and seconds at the pace of earlier batches."""

    records: int = 500_000
    per_partition: int | None = None
    bytes: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name, value in as_plain(self).items():
            if value is not None and not (is_number(value) and 0 < value < inf):
                raise BadDefinition(f"limits.{name} is {value!r}: it must be a number above 0")

    @property
    def go_by_pace(self) -> bool:
        """Returns True if a limit depends on the speed or the size of earlier batches."""
        return self.bytes is not None or self.seconds is not None


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """The limits of a record: bytes after decompression, headers, and for a registry's schemas depth and values.

    `schemas` is how many schema ids the registry may refuse as unknown in one task. `seconds` is how long a decoder or
    transform may work without progress.
    """

    bytes: int = 64 * MEGABYTE
    depth: int = 100
    values: int = 1_000_000
    schemas: int = 100
    headers: int = 10_000
    seconds: int = 600

    @property
    def shown(self) -> str:
        """Says each limit, and which of them are the defaults."""
        words = {"bytes": "{} bytes", "depth": "depth {}", "values": "{} values", "schemas": "{} schemas"}
        words |= {"headers": "{} headers", "seconds": "{} seconds"}
        default = RecordLimits()
        if self == default:
            return f"{', '.join(text.format(getattr(self, name)) for name, text in words.items())} (defaults)"
        marks = {name: " (default)" if getattr(self, name) == getattr(default, name) else "" for name in words}
        return ", ".join(text.format(getattr(self, name)) + marks[name] for name, text in words.items())

    def __post_init__(self) -> None:
        for name, value in as_plain(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
                raise BadDefinition(f"record_limits.{name} is {value!r}: it must be a whole number above 0")
        for name, most in (
            ("bytes", MOST_RECORD_BYTES),
            ("depth", 200),
            ("headers", MOST_RECORD_HEADERS),
            ("seconds", MOST_RECORD_SECONDS),
        ):
            if getattr(self, name) > most:
                raise BadDefinition(f"record_limits.{name} is {getattr(self, name)}: {most} is the most")

    def document(self) -> dict[str, Any]:
        """Returns the limits as plain JSON. Those of headers and seconds are left out while they have their defaults."""
        default = as_plain(RecordLimits())
        whole = as_plain(self).items()
        return {name: value for name, value in whole if name not in ADDED_LIMITS or value != default[name]}

    def excess(self, size: int) -> str:
        """Says which limit a record of this `_bytes` exceeds."""
        headers, size = divmod(size, HEADERS_UNIT)
        if headers:
            return TOO_MANY_HEADERS.format(headers, self.headers)
        return f"is {size} bytes after decompression; the limit is {self.bytes} (record_limits.bytes)"


def is_number(value: Any) -> bool:
    """Returns True for a number. True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def refuse_bad_days(days: Any) -> None:
    """Refuses a retention of rejects that is no whole number of days."""
    if days is not None and (isinstance(days, bool) or not isinstance(days, int) or not 1 <= days <= MOST_DAYS):
        raise BadDefinition(f"reject_retention is {days!r}: it must be a whole number of days, 1 to {MOST_DAYS}")
