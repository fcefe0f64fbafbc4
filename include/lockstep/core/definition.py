"""Defines a pipeline as a value: what to read, how to decode it, where it goes, and within which limits."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lockstep.core.bounds import moment_of
from lockstep.core.errors import BadDefinition
from lockstep.core.formats import Avro, Custom, Envelope, Format, Json, Raw, columns_of
from lockstep.core.guarantees import AtLeastOnce, AtMostOnce, Guarantee, Idempotent, PerBatch, PerPartition
from lockstep.core.names import refuse_bad_name
from lockstep.core.record_limits import RecordLimits
from lockstep.core.stores import Files, Postgres, Store, refuse_misfit
from lockstep.core.targets import Accumulate, Append, Count, Max, Min, Sum, Target, Upsert, shares
from lockstep.core.violations import ON_VIOLATION, REFUSE

if TYPE_CHECKING:
    from datetime import datetime

    from lockstep.core.columns import Column

__all__ = [
    "Accumulate",
    "Append",
    "AtLeastOnce",
    "AtMostOnce",
    "Avro",
    "Count",
    "Custom",
    "Envelope",
    "Files",
    "Idempotent",
    "Json",
    "Limits",
    "Max",
    "Min",
    "PerBatch",
    "PerPartition",
    "Pipeline",
    "Postgres",
    "Raw",
    "RecordLimits",
    "Sum",
    "Target",
    "Upsert",
    "start_of",
]

# Later options with their defaults. A definition that does not use them keeps its document and hash.
ADDED: dict[str, Any] = dict.fromkeys(("rest", "subject", "transform", "envelope", "store", "reject_retention"))
ADDED |= {"strict": False, "nondeterministic": False, "on_violation": REFUSE, "shared_with": ()}
ADDED |= {"record_limits": asdict(RecordLimits())}
MOST_DAYS = 36_500
TOPIC = re.compile(r"^[A-Za-z0-9._-]{1,249}\Z")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one batch: offsets in all and per partition, bytes, and seconds at the pace of earlier batches."""

    records: int = 500_000
    per_partition: int | None = None
    bytes: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value <= 0):
                raise BadDefinition(f"limits.{name} is {value!r}: it must be a number above 0")

    @property
    def go_by_pace(self) -> bool:
        """Returns True if a limit depends on the speed or the size of earlier batches."""
        return self.bytes is not None or self.seconds is not None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One topic into one target or several. The name is the pipeline's identity in the ledger, for good.

    Several targets are a tuple. Each batch is published to all of them in one transaction, in the tuple's order.
    Results live in the ledger's own database, unless `store` names another place. `guarantee` says what a crash can
    cost. `reject_retention` is the number of days that a reject keeps its bytes. Without it, they stay for good.
    `check` reports a transform whose rows depend on anything but its records, unless `nondeterministic` allows it.
    """

    name: str
    topic: str
    format: Format
    target: Target | tuple[Target, ...]
    start: str = "earliest"
    limits: Limits = field(default_factory=Limits)
    schedule: str | None = None
    owner: str = "lockstep"
    guarantee: Guarantee = field(default_factory=PerBatch)
    store: Store | None = None
    max_reject_share: float = 0.05
    nondeterministic: bool = False
    envelope: Envelope | None = None
    on_violation: str = REFUSE
    record_limits: RecordLimits = field(default_factory=RecordLimits)
    reject_retention: int | None = None

    def __post_init__(self) -> None:
        refuse_bad_name(self.name)
        if not TOPIC.match(self.topic) or self.topic in {".", ".."}:
            raise BadDefinition(f"topic {self.topic!r} is no legal topic name")
        for attribute, allowed in (
            ("format", Format),
            ("limits", Limits),
            ("record_limits", RecordLimits),
            ("guarantee", Guarantee),
            ("envelope", Envelope | None),
            ("store", Store | None),
        ):
            if not isinstance(getattr(self, attribute), allowed):
                raise BadDefinition(f"{attribute} is {getattr(self, attribute)!r}: not a kind that Lockstep knows")
        self._refuse_bad_targets()
        if not 0 <= self.max_reject_share <= 1:
            raise BadDefinition(f"max_reject_share is {self.max_reject_share!r}: it must lie between 0 and 1")
        if self.on_violation not in ON_VIOLATION:
            raise BadDefinition(f"on_violation is {self.on_violation!r}: it must be {' or '.join(ON_VIOLATION)}")
        _refuse_bad_days(self.reject_retention)
        start_of(self.start)
        columns_of(self.format, self.envelope)
        refuse_misfit(self.targets, self.guarantee, self.store)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Returns the decoded columns, before a transform."""
        return columns_of(self.format, self.envelope)

    def _refuse_bad_targets(self) -> None:
        if not self.targets or not all(isinstance(target, Target) for target in self.targets):
            raise BadDefinition(f"target is {self.target!r}: not a kind that Lockstep knows, nor a tuple of them")
        tables = [target.table for target in self.targets]
        for table in tables:
            if tables.count(table) > 1:
                raise BadDefinition(f"target: {table} stands there twice, and every target has a table of its own")
        if any(self.name in shares(target) for target in self.targets):
            raise BadDefinition(f"target.shared_with: {self.name!r} is this pipeline itself; name the others")

    @property
    def targets(self) -> tuple[Target, ...]:
        """Returns the targets in the order in which they are published. Usually there is one."""
        return self.target if isinstance(self.target, tuple) else (self.target,)

    @property
    def first(self) -> Target:
        """Returns the first target, usually the only one.

        Rejects are staged beside its rows, and the suite judges those rows.
        """
        return self.targets[0]

    def each(self) -> tuple[Pipeline, ...]:
        """Returns the pipeline once per target, with that one target alone."""
        return tuple(replace(self, target=target) for target in self.targets)

    @property
    def tombstone_targets(self) -> tuple[Upsert, ...]:
        """Returns the targets that a record without a value deletes from.

        These are `Upsert` targets whose key is the column of the Kafka key. A single `Upsert` target counts whatever
        its key. Returns none if one of them has an `order_by`, or if no column holds the Kafka key. Such a record is
        then a reject, because it has no such value.
        """
        several = len(self.targets) > 1
        named = (self.format.key,)
        keyed = [t for t in self.targets if isinstance(t, Upsert) and (t.key == named or not several)]
        if self.format.key is None or any(target.order_by for target in keyed):
            return ()
        return tuple(keyed)

    @property
    def takes_tombstones(self) -> bool:
        """Returns True if a record without a value is a deletion here. Otherwise it is a reject."""
        return bool(self.tombstone_targets)

    def document(self) -> dict[str, Any]:
        """Returns the definition as plain JSON, for the ledger.

        `kind` keeps the types apart. Later options are left out while they have their default.
        """
        whole = asdict(self) | {name: _told(getattr(self, name)) for name in ("format", "guarantee")}
        targets = [_told(target) for target in self.targets]
        whole["target"] = targets[0] if len(targets) == 1 else targets
        whole["store"] = _told(self.store) if self.store else None
        return _said(whole)


def _refuse_bad_days(days: Any) -> None:
    if days is not None and (isinstance(days, bool) or not isinstance(days, int) or not 1 <= days <= MOST_DAYS):
        raise BadDefinition(f"reject_retention is {days!r}: it must be a whole number of days, 1 to {MOST_DAYS}")


def _told(part: Format | Guarantee | Target | Store) -> dict[str, Any]:
    told = {"kind": type(part).__name__} | _said(asdict(part))
    if isinstance(part, Accumulate):
        told["totals"] = [{"kind": type(total).__name__, **asdict(total)} for total in part.totals]
    return told


def _said(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in ADDED or value != ADDED[name]}


def start_of(start: str) -> datetime | str:
    """Returns `earliest`, `latest`, or the moment of an ISO 8601 start, in UTC.

    Raises `BadDefinition` for other text.
    """
    if start in {"earliest", "latest"}:
        return start
    try:
        return moment_of(start)
    except (TypeError, ValueError):
        raise BadDefinition(f"start is {start!r}: it must be earliest, latest or an ISO 8601 time") from None
