"""A pipeline is a value: what to read, how to decode it, where it goes, and within which limits."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from lockstep.core.columns import IDENTIFIER
from lockstep.core.errors import BadDefinition
from lockstep.core.formats import Format, Json
from lockstep.core.guarantees import Guarantee, PerBatch, PerPartition
from lockstep.core.targets import Append, Target, Upsert

__all__ = ["Append", "Json", "Limits", "PerBatch", "PerPartition", "Pipeline", "Target", "Upsert", "start_of"]

PER_PARTITION = (Append, Upsert)  # rows that one range's transaction can publish by itself
TOPIC = re.compile(r"^[A-Za-z0-9._-]{1,249}\Z")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one batch may take: offsets in all and per partition, bytes, and seconds at the pace of earlier batches."""

    records: int = 500_000
    per_partition: int | None = None
    bytes: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value <= 0):
                raise BadDefinition(f"limits.{name} is {value!r}: it must be a number above 0")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One topic into one target, for good: the name is the pipeline's identity in the ledger."""

    name: str
    topic: str
    format: Format
    target: Target
    start: str = "earliest"
    limits: Limits = field(default_factory=Limits)
    schedule: str | None = None
    owner: str = "lockstep"
    guarantee: Guarantee = field(default_factory=PerBatch)
    max_reject_share: float = 0.05

    def __post_init__(self) -> None:
        if not IDENTIFIER.match(self.name):
            raise BadDefinition(f"name {self.name!r}: lower case letters, digits and _, 63 at most")
        if not TOPIC.match(self.topic) or self.topic in {".", ".."}:
            raise BadDefinition(f"topic {self.topic!r} is no legal topic name")
        for attribute, allowed in (
            ("format", Format),
            ("target", Target),
            ("limits", Limits),
            ("guarantee", Guarantee),
        ):
            if not isinstance(getattr(self, attribute), allowed):
                raise BadDefinition(f"{attribute} is {getattr(self, attribute)!r}: not a kind that Lockstep knows")
        if isinstance(self.guarantee, PerPartition) and type(self.target) not in PER_PARTITION:
            raise BadDefinition(
                f"target is {type(self.target).__name__}, and guarantee PerPartition takes Append or Upsert: "
                "others need the whole batch in one transaction, as with PerBatch"
            )
        if not 0 <= self.max_reject_share <= 1:
            raise BadDefinition(f"max_reject_share is {self.max_reject_share!r}: it must lie between 0 and 1")
        start_of(self.start)

    @property
    def takes_tombstones(self) -> bool:
        """Whether a record without a value is a deletion here; with `order_by` it is a reject, for it has no such value."""
        return isinstance(self.target, Upsert) and self.format.key is not None and self.target.order_by is None

    def document(self) -> dict[str, Any]:
        """The definition as plain JSON, for the ledger; `kind` keeps the types apart."""
        parts = {name: {"kind": type(getattr(self, name)).__name__} for name in ("format", "target", "guarantee")}
        whole = asdict(self)
        return whole | {name: kind | whole[name] for name, kind in parts.items()}


def start_of(start: str) -> datetime | str:
    """`earliest`, `latest`, or the moment in UTC that an ISO 8601 start names."""
    if start in {"earliest", "latest"}:
        return start
    try:
        moment = datetime.fromisoformat(start)
    except (TypeError, ValueError):
        raise BadDefinition(f"start is {start!r}: it must be earliest, latest or an ISO 8601 time") from None
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
