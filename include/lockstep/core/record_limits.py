"""Defines the limits of one record. A record past a limit is a reject, so that no record stops its reader."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from lockstep.core.errors import BadDefinition

MEGABYTE = 2**20
MOST_BYTES = 512 * MEGABYTE  # the most that the JVM, Arrow and Postgres all hold in one value


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """The limits of a record: bytes of key and value after decompression, and for Avro depth and values.

    `schemas` is how many schema ids the registry may refuse as unknown in one task.
    """

    bytes: int = 64 * MEGABYTE
    depth: int = 100
    values: int = 1_000_000
    schemas: int = 100

    @property
    def shown(self) -> str:
        """Says each limit, and which of them are the defaults."""
        words = {"bytes": "{} bytes", "depth": "depth {}", "values": "{} values", "schemas": "{} schemas"}
        default = RecordLimits()
        if self == default:
            return f"{', '.join(text.format(getattr(self, name)) for name, text in words.items())} (defaults)"
        marks = {name: " (default)" if getattr(self, name) == getattr(default, name) else "" for name in words}
        return ", ".join(text.format(getattr(self, name)) + marks[name] for name, text in words.items())

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
                raise BadDefinition(f"record_limits.{name} is {value!r}: it must be a whole number above 0")
        for name, most in (("bytes", MOST_BYTES), ("depth", 200)):
            if getattr(self, name) > most:
                raise BadDefinition(f"record_limits.{name} is {getattr(self, name)}: {most} is the most")
