"""Formats: what a record's bytes are, and which columns come out of them."""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.core.columns import Column, parse_columns
from lockstep.core.errors import BadDefinition


@dataclass(frozen=True, slots=True)
class Json:
    """JSON objects with this schema; `key` names the column that the Kafka key holds, which a tombstone needs."""

    schema: str
    key: str | None = None

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if self.key is not None and self.key not in names:
            raise BadDefinition(f"format.key: {self.key!r} is not a column of the schema ({', '.join(names)})")

    @property
    def columns(self) -> tuple[Column, ...]:
        """The decoded columns, in the schema's order."""
        return parse_columns(self.schema)


Format = Json
