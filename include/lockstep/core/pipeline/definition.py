"""Defines a pipeline as a value: what to read, how to decode it, where it goes, and within which limits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lockstep.core.capture.debezium import BY_LOG, PLACEHOLDER, Debezium
from lockstep.core.capture.fit import in_order_of_source, refuse_no_mirror
from lockstep.core.errors import BadDefinition
from lockstep.core.feed.feeds import Topic, refuse_odd_topics
from lockstep.core.formats.deletions import Delete, deletion_targets
from lockstep.core.formats.registered import Avro, Protobuf
from lockstep.core.pipeline.formats import Custom, Envelope, Format, Json, Raw, columns_of
from lockstep.core.pipeline.guarantees import AtLeastOnce, AtMostOnce, Guarantee, Idempotent, PerBatch, PerPartition
from lockstep.core.pipeline.limits import Limits, RecordLimits, is_number, refuse_bad_days
from lockstep.core.pipeline.names import OfTopics, Topics, TopicSource, refuse_bad_name, refuse_bad_topic
from lockstep.core.pipeline.schedule import behind_after, duration_of, start_of
from lockstep.core.pipeline.stores import Files, Postgres, Store, refuse_keys_elsewhere, refuse_misfit, store_of
from lockstep.core.pipeline.targets import (
    Accumulate,
    Append,
    Feed,
    History,
    Keyed,
    Send,
    Target,
    Upsert,
    Windows,
    refuse_bad_targets,
    refuse_timeless,
)
from lockstep.core.pipeline.totals import Count, Max, Min, Sum
from lockstep.core.pipeline.violations import ON_VIOLATION, REFUSE
from lockstep.core.retention.archive import Archive
from lockstep.core.text import as_plain
from lockstep.core.windows.event_time import Calendar, EventTime, Hopping, Tumbling

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from lockstep.core.pipeline.columns import Column

__all__ = [
    "Accumulate",
    "Append",
    "Archive",
    "AtLeastOnce",
    "AtMostOnce",
    "Avro",
    "Calendar",
    "Count",
    "Custom",
    "Debezium",
    "Delete",
    "Envelope",
    "EventTime",
    "Feed",
    "Files",
    "History",
    "Hopping",
    "Idempotent",
    "Json",
    "Limits",
    "Max",
    "Min",
    "PerBatch",
    "PerPartition",
    "Pipeline",
    "Postgres",
    "Protobuf",
    "Raw",
    "RecordLimits",
    "Send",
    "Sum",
    "Target",
    "Topic",
    "Topics",
    "Tumbling",
    "Upsert",
    "Windows",
    "start_of",
]

# Later options with their defaults. A definition that does not use them keeps its document and hash.
ADDED: dict[str, Any] = dict.fromkeys(("rest", "subject", "transform", "envelope", "store", "reject_retention"))
ADDED |= {**dict.fromkeys(("alarm", "archive", "feed", "to", "event_time")), "record_limits": RecordLimits().document()}
ADDED |= {"units": {}, "placeholder": PLACEHOLDER, "wire": None, "order": BY_LOG, "on_truncate": "refuse"}
ADDED |= {"engine": None, "strict": False, "nondeterministic": False, "registry": False, "validate": False}
ADDED |= {"on_violation": REFUSE, "shared_with": ()}
ENGINES = ("spark", "process")


@dataclass(frozen=True, slots=True)
class Pipeline(OfTopics):
    """Topics into one target or several. The name is the pipeline's identity in the ledger, for good.

    `topic` is one name, a tuple of names, or `Topics` with a pattern. `format` says how a record's bytes become columns,
    `envelope` which columns hold its key, time and headers. Several targets are a tuple. Each batch is published to all of
    them in one transaction, in the tuple's order. The first plan begins at `start`: `earliest`, `latest`, an ISO 8601 time,
    or offsets by partition, as `{0: 123}`. `limits` bound one batch, `record_limits` one record.

    `schedule` is the DAG's, and `owner` its owner in Airflow. `alarm` is a duration such as `15m`: the pipeline is behind if
    a record waits for longer. Without it, two schedules count. `event_time` says which column tells when a record's event
    happened. Targets with windows need it. Results live in the ledger's own database, unless `store` names another place.
    `guarantee` says what a crash can cost.

    A batch is refused if more than 100 of its records are rejects, and more than `max_reject_share`. `on_violation` says
    what becomes of rows that break a critical expectation: `refuse` the batch, or `quarantine` them as rejects.
    `reject_retention` is how many days a reject keeps its bytes. Without it, they stay for good. `check` reports a
    transform whose rows depend on anything but its records, unless `nondeterministic` allows it. `engine` is `spark`
    or `process`, the calling one. LOCKSTEP_ENGINE is asked without it. `archive` keeps raw records past retention.
    """

    name: str
    topic: TopicSource
    format: Format
    target: Target | tuple[Target, ...]
    start: str | Mapping[int, int] = "earliest"
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
    alarm: str | None = None
    engine: str | None = None
    event_time: EventTime | None = None
    archive: Archive | None = None

    def __post_init__(self) -> None:
        for attribute, allowed in (
            ("name", str),
            ("schedule", str | None),
            ("owner", str),
            ("nondeterministic", bool),
            ("format", Format),
            ("limits", Limits),
            ("record_limits", RecordLimits),
            ("guarantee", Guarantee),
            ("envelope", Envelope | None),
            ("store", Store | None),
            ("event_time", EventTime | None),
            ("archive", Archive | None),
        ):
            if not isinstance(getattr(self, attribute), allowed):
                raise BadDefinition(f"{attribute} is {getattr(self, attribute)!r}: not a kind that Lockstep knows")
        refuse_bad_name(self.name)
        refuse_bad_topic(self.topic, self.start)
        object.__setattr__(self, "target", in_order_of_source(self.format, self.target))
        refuse_bad_targets(self.target, self.targets, self.name)
        object.__setattr__(self, "store", store_of(self.targets, self.store))
        if not (is_number(self.max_reject_share) and 0 <= self.max_reject_share <= 1):
            raise BadDefinition(f"max_reject_share is {self.max_reject_share!r}: it must lie between 0 and 1")
        if self.on_violation not in ON_VIOLATION:
            raise BadDefinition(f"on_violation is {self.on_violation!r}: it must be {' or '.join(ON_VIOLATION)}")
        refuse_bad_days(self.reject_retention)
        if self.engine is not None and self.engine not in ENGINES:
            raise BadDefinition(f"engine is {self.engine!r}: it must be {' or '.join(ENGINES)}")
        if self.alarm is not None:
            duration_of(self.alarm, "alarm")
        start_of(self.start)
        columns_of(self.format, self.envelope)
        refuse_timeless(self.targets, self.event_time)
        refuse_misfit(self.targets, self.guarantee, self.store)
        refuse_keys_elsewhere(self.topic, self.targets, self.store)
        refuse_no_mirror(self.topic, self.format, self.targets, self.guarantee)
        refuse_odd_topics((target.feed for target in self.targets), self.topic)

    @property
    def behind_after(self) -> timedelta | None:
        """Returns the age at which a record that waits makes the pipeline late, or None if nothing says so."""
        return behind_after(self.schedule, self.alarm)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Returns the decoded columns, before a transform."""
        return columns_of(self.format, self.envelope)

    @property
    def staged_columns(self) -> tuple[Column, ...]:
        """Returns the decoded columns with the mark of unavailable values, where the format has one."""
        return columns_of(self.format, self.envelope, is_staged=True)

    @property
    def targets(self) -> tuple[Target, ...]:
        """Returns the targets in the order in which they are published. Usually there is one."""
        return self.target if isinstance(self.target, tuple) else (self.target,)

    @property
    def windows(self) -> tuple[Windows, ...]:
        """Returns the targets with windows. Their records are judged by event time."""
        return tuple(target for target in self.targets if isinstance(target, Windows))

    @property
    def first(self) -> Target:
        """Returns the first target, usually the only one. Rejects are staged with its rows, which the suite judges."""
        return self.targets[0]

    def each(self) -> tuple[Pipeline, ...]:
        """Returns the pipeline once per target, with that one target alone."""
        return tuple(replace(self, target=target) for target in self.targets)

    @property
    def tombstone_targets(self) -> tuple[Keyed, ...]:
        """Returns the targets that a deletion reaches: a record without a value, or a decoder's own `Delete`."""
        return deletion_targets(self.format, self.targets)

    @property
    def takes_tombstones(self) -> bool:
        """Returns True if a record may delete rows here. Otherwise such a record is a reject."""
        return bool(self.tombstone_targets)

    def document(self) -> dict[str, Any]:
        """Returns the definition as plain JSON, for the ledger.

        `kind` keeps the types apart. Later options are left out while they have their default.
        """
        whole = as_plain(self) | {n: _told(p) for n in ("format", "guarantee", "store") if (p := getattr(self, n))}
        whole["start"] = self.start if isinstance(self.start, str) else {str(p): at for p, at in self.start.items()}
        targets = [_told(target) for target in self.targets]
        whole["target"] = targets[0] if len(targets) == 1 else targets
        if self.envelope and self.envelope.topic is None:
            del whole["envelope"]["topic"]
        return _said(whole | {"record_limits": self.record_limits.document()})


def _told(part: Format | Guarantee | Target | Store) -> dict[str, Any]:
    told = {"kind": type(part).__name__} | _said(as_plain(part))
    if isinstance(part, Windows):
        told["window"] = {"kind": type(part.window).__name__, **as_plain(part.window)}
    if isinstance(part, Accumulate | Windows):
        told["totals"] = [{"kind": type(total).__name__, **as_plain(total)} for total in part.totals]
    if isinstance(part, Send):
        told["topic"] = part.topic.document()
        return {name: value for name, value in told.items() if name not in {"table", "feed"}}  # both are the topic's
    if "feed" not in told:
        return told
    to = getattr(part, "feed").to  # noqa: B009 - formats and stores have none
    return told | {"feed": _said(told["feed"] | {"to": to.document() if to else None})}


def _said(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in ADDED or value != ADDED[name]}
