"""Defines the targets: what a batch's rows become in the database."""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.core.errors import BadDefinition
from lockstep.core.feed.feeds import Feed, Topic, refuse_bad_feed
from lockstep.core.feed.sends import table_of_topic
from lockstep.core.lake.iceberg import Iceberg
from lockstep.core.pipeline.columns import SYSTEM_NAMES, VERSION_NAMES
from lockstep.core.pipeline.limits import is_number
from lockstep.core.pipeline.names import refuse_bad_key, refuse_bad_table, refuse_bad_transform, refuse_sharing_names
from lockstep.core.pipeline.totals import Count, Max, Min, Sum, Total
from lockstep.core.records import RESERVED
from lockstep.core.windows.event_time import EventTime, WindowKind, parse_duration

__all__ = ["Accumulate", "Append", "Count", "Feed", "History", "Keyed", "Max", "Min", "Send", "Sum", "Target", "Total"]
__all__ += ["Upsert", "Windows"]


@dataclass(frozen=True, slots=True)
class Append:
    """A target in which every record becomes its own row, keyed by (_stream, _offset, _ordinal).

    `transform` names the function of transform.py that makes these rows. Without it, it is the one called transform. With
    a `feed`, the changes of the table can be followed one by one, and nothing but commits changes it. A table of the lake
    is an `Iceberg`.
    """

    table: str
    transform: str | None = None
    feed: Feed | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.table, Iceberg) and type(self) is Append):
            refuse_bad_table(self.table)
        refuse_bad_feed(self.feed, self.table)
        refuse_bad_transform(self.transform)


@dataclass(frozen=True, slots=True, init=False, kw_only=True)
class Send(Append):
    """A target that sends every row to a topic, each once. The table behind it is its feed's kept part.

    `key` names the columns that a sent record's key is made of. Without it, records have no key. `transform` is that of
    other targets.
    """

    topic: Topic
    key: tuple[str, ...] | None

    def __init__(self, topic: Topic, key: tuple[str, ...] | None = None, transform: str | None = None) -> None:
        if not isinstance(topic, Topic):
            raise BadDefinition(f"target: Send takes a topic, such as Send(Topic('clicks.v1')), and not {topic!r}")
        if key is not None:
            refuse_bad_key(key)
        refuse_bad_transform(transform)
        made = {"table": table_of_topic(topic.name), "transform": transform, "feed": Feed(to=topic)}
        for name, value in (made | {"topic": topic, "key": key}).items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class History(Append):
    """A target in which each record of a key is a version. It is valid from its moment until that of the next one.

    Lockstep fills `valid_from`, `valid_until` and `_deleted`. The current version has no `valid_until`. `order_by` names the
    column whose value is the moment. Without it, records follow each other as in the log. The moment is then the
    record's time, and a deletion ends the key's last version.
    """

    key: tuple[str, ...]
    order_by: str | None = None

    def __post_init__(self) -> None:
        Append.__post_init__(self)
        refuse_bad_key(self.key, *([self.order_by] if self.order_by is not None else []))
        for name in (*self.key, self.order_by):
            if name in VERSION_NAMES:
                raise BadDefinition(f"target: the column {name!r} is reserved: Lockstep fills it")


@dataclass(frozen=True, slots=True)
class Upsert:
    """A target in which the newest record of a key is the key's row. A tombstone deletes the row.

    The newest record has the highest (`order_by`, stream epoch, offset). `shared_with` names the other pipelines that
    write this table. Each of them names this one in its own definition, and has the same `feed`. A table of the lake is an
    `Iceberg`.
    """

    table: str
    key: tuple[str, ...]
    order_by: str | None = None
    transform: str | None = None
    shared_with: tuple[str, ...] = ()
    feed: Feed | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.table, Iceberg):
            refuse_bad_table(self.table)
        refuse_bad_feed(self.feed, self.table)
        refuse_bad_transform(self.transform)
        refuse_bad_key(self.key, *([self.order_by] if self.order_by else []))
        refuse_sharing_names(self.shared_with)


@dataclass(frozen=True, slots=True)
class Accumulate:
    """A target in which a key's row holds totals over its records.

    The ledger keeps the contribution of each segment, so that a replay takes it out again.
    """

    table: str
    key: tuple[str, ...]
    totals: tuple[Total, ...]
    transform: str | None = None
    feed: Feed | None = None

    def __post_init__(self) -> None:
        refuse_bad_table(self.table)
        refuse_bad_feed(self.feed, self.table)
        refuse_bad_transform(self.transform)
        refuse_bad_key(self.key)
        _refuse_bad_totals(self.key, self.totals)


@dataclass(frozen=True, slots=True)
class Windows:
    """A target in which a row holds totals over the records of one window and key.

    A row is shown once the watermark has passed its window, with `_revision` 1. Each later change of it adds one. A live
    record counts until its window has been over for `lateness`. A later one is kept as late. A batch is refused if more
    than `max_late_share` of what it counts in windows would be late.
    """

    table: str
    window: WindowKind
    key: tuple[str, ...]
    totals: tuple[Total, ...]
    lateness: str = "0 seconds"
    max_late_share: float = 0.5
    feed: Feed | None = None
    transform: str | None = None

    def __post_init__(self) -> None:
        refuse_bad_table(self.table)
        refuse_bad_feed(self.feed, self.table)
        refuse_bad_transform(self.transform)
        if not isinstance(self.window, WindowKind):
            raise BadDefinition(f"target.window is {self.window!r}: it must be Tumbling, Hopping or Calendar")
        refuse_bad_key(self.key)
        _refuse_bad_totals(self.key, self.totals, WINDOW_COLUMNS)
        parse_duration(self.lateness, "target.lateness")
        if not (is_number(self.max_late_share) and 0 <= self.max_late_share <= 1):
            raise BadDefinition(f"target.max_late_share is {self.max_late_share!r}: it must lie between 0 and 1")


WithTotals = Accumulate | Windows
Keyed = Upsert | History  # a deletion means something to them
Target = Append | Upsert | Accumulate | Windows
ORIGIN = ("_stream", "_offset", "_ordinal")
WINDOW_COLUMNS = ("window_start", "window_end", "_revision")  # Lockstep fills them


def row_key(target: Target) -> tuple[str, ...]:
    """Returns the columns that tell a target's rows apart."""
    if isinstance(target, Windows):
        return ("window_start", *target.key)
    return ORIGIN if isinstance(target, Append) else target.key


def asked_key(target: Target) -> tuple[str, ...]:
    """Returns the columns by which a person asks for a target's rows, or none if they have no key."""
    if isinstance(target, History):
        return target.key
    return () if isinstance(target, Append) else row_key(target)


def filled_columns(target: Target) -> tuple[str, ...]:
    """Returns the columns of a target with totals, or none if the decoded ones are its columns."""
    return (*target.key, *(total.name for total in target.totals)) if isinstance(target, WithTotals) else ()


def topics_of(targets: tuple[Target, ...]) -> list[tuple[Target, Topic]]:
    """Returns the targets whose feeds are sent to a topic, each with its topic."""
    return [(target, target.feed.to) for target in targets if target.feed and target.feed.to]


def message_key(target: Target) -> tuple[str, ...]:
    """Returns the columns that the key of a sent record is made of, or none for records without a key."""
    return (target.key or ()) if isinstance(target, Send) else row_key(target)


def needed_columns(targets: tuple[Target, ...], event_time: EventTime | None = None) -> tuple[str, ...]:
    """Returns the columns that every row of these targets needs: keys, the order of a key's records, the event time."""
    wanted: list[str] = [] if event_time is None else [event_time.column]
    for target in targets:
        if not isinstance(target, Append) or isinstance(target, History):
            wanted += target.key
        elif isinstance(target, Send):
            wanted += target.key or ()
        if isinstance(target, Keyed) and target.order_by:
            wanted.append(target.order_by)
    return tuple(dict.fromkeys(wanted))


def refuse_bad_targets(given: object, targets: tuple[Target, ...], pipeline: str) -> None:
    """Refuses what is no target, tables that stand there twice, and a pipeline that shares a table with itself."""
    if not targets or not all(isinstance(target, Target) for target in targets):
        raise BadDefinition(f"target is {given!r}: not a kind that Lockstep knows, nor a tuple of them")
    tables = [target.table for target in targets]
    for table in tables:
        if tables.count(table) > 1:
            raise BadDefinition(f"target: {table} stands there twice, and every target has a table of its own")
    if any(pipeline in shares(target) for target in targets):
        raise BadDefinition(f"target.shared_with: {pipeline!r} is this pipeline itself; name the others")


def _refuse_bad_totals(key: tuple[str, ...], totals: tuple[Total, ...], more: tuple[str, ...] = ()) -> None:
    if not isinstance(totals, tuple) or not totals:
        raise BadDefinition("target.totals must be a tuple of totals, such as (Count('orders'),)")
    for total in totals:
        if not isinstance(total, Total):
            raise BadDefinition(f"target.totals: {total!r} is no Count, Sum, Min or Max")
    names = [*key, *(total.name for total in totals)]
    for name in names:
        if name in RESERVED or name in more:
            raise BadDefinition(f"target.totals: the column {name!r} is reserved: Lockstep fills it")
        if name in SYSTEM_NAMES:
            raise BadDefinition(f"target.totals: the column {name!r} is a system column of Postgres: rename it")
        if names.count(name) > 1:
            raise BadDefinition(f"target.totals: the column {name!r} is there twice")


def refuse_timeless(targets: tuple[Target, ...], event_time: EventTime | None) -> None:
    """Refuses windows without an event time."""
    windows = [target.table for target in targets if isinstance(target, Windows)]
    if windows and event_time is None:
        raise BadDefinition(
            f"event_time is None: {windows[0]} has windows, and needs to know when a record's event happened: say "
            "event_time=EventTime('COLUMN')"
        )


def shares(target: Target) -> tuple[str, ...]:
    """Returns the other pipelines that the definition lets write the table."""
    return target.shared_with if isinstance(target, Upsert) else ()
