"""Defines half-open offset ranges, and what the broker and the ledger know of a partition."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    Archived = Mapping["TopicPartition", tuple[tuple[int, int], ...]]

TOPIC = re.compile(r"^[A-Za-z0-9._-]{1,249}\Z")


def is_topic_name(name: object) -> bool:
    """Returns True for a name that Kafka takes."""
    return isinstance(name, str) and TOPIC.match(name) is not None and name not in {".", ".."}


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of one topic, printed as `orders.v1-3`."""

    topic: str
    partition: int

    def __post_init__(self) -> None:
        if not self.topic:
            raise ValueError("a TopicPartition needs a topic")
        if self.partition < 0:
            raise ValueError(f"{self.topic}: partition {self.partition} is negative")

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The half-open `[from_offset, until_offset)` of one TopicPartition. It is never empty."""

    topic_partition: TopicPartition
    from_offset: int
    until_offset: int

    def __post_init__(self) -> None:
        if not 0 <= self.from_offset < self.until_offset:
            raise ValueError(
                f"{self.topic_partition}: [{self.from_offset}, {self.until_offset}) is not a range of offsets"
            )

    @property
    def span(self) -> int:
        """Returns the number of offsets in the range. It is never a count of records, because logs have gaps."""
        return self.until_offset - self.from_offset

    def __str__(self) -> str:
        return f"{self.topic_partition} [{self.from_offset}, {self.until_offset})"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets of a partition for a `read_committed` reader: from `log_start` up to the last stable offset.

    `leader_epoch` is that of the broker which answered. It grows with every election. It is None if the broker did not
    tell it. `archived` are stretches that files hold, in order and disjoint. They count below `log_start` alone.
    """

    log_start: int
    stable_end: int
    leader_epoch: int | None = field(default=None, compare=False)
    archived: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.log_start <= self.stable_end:
            raise ValueError(f"bounds [{self.log_start}, {self.stable_end}) are not a log's")

    def gap(self, offset: int) -> tuple[int, int] | None:
        """Returns the first stretch at or after an offset that neither the log nor the archive holds, or None."""
        for begin, end in self.archived:
            if begin > offset:
                break
            offset = max(offset, end)
        following = min((begin for begin, _ in self.archived if begin > offset), default=self.log_start)
        return (offset, min(following, self.log_start)) if offset < self.log_start else None

    def readable_until(self, offset: int) -> int:
        """Returns how far an offset can be read on: to the stable end, or to a gap."""
        gap = self.gap(offset)
        return self.stable_end if gap is None else gap[0]

    def holds(self, from_offset: int, until_offset: int) -> bool:
        """Returns True if log and archive together hold all of these offsets. Looks at no end of the log."""
        gap = self.gap(from_offset)
        return gap is None or gap[0] >= until_offset

    def held_within(self, from_offset: int, until_offset: int) -> list[tuple[int, int]]:
        """Returns the parts of these offsets that log or archive hold, in order."""
        found, at = [], from_offset
        while at < until_offset and (gap := self.gap(at)) is not None:
            found += [(at, min(gap[0], until_offset))] if at < gap[0] else []
            at = gap[1]
        return [*found, (at, until_offset)] if at < until_offset else found

    @property
    def held_ranges(self) -> str:
        """Returns all offsets that log or archive hold, as Postgres writes several ranges."""
        files = [f"[{begin},{end})" for begin, end in self.archived]
        return "{" + ",".join([*files, f"[{self.log_start},)"]) + "}"

    @property
    def whole_from(self) -> int:
        """Returns the lowest offset from which on log and archive hold everything."""
        found = self.log_start
        for begin, end in reversed(self.archived):
            if end < found:
                break
            found = min(found, begin)
        return found

    @property
    def lowest(self) -> int:
        """Returns the lowest offset that log or archive holds."""
        return min([self.log_start, *(begin for begin, _ in self.archived[:1])])


@dataclass(frozen=True, slots=True)
class TopicView:
    """One reading of the broker: the identity of the log, and each partition's bounds."""

    cluster_id: str
    topic: str
    topic_id: str
    bounds: dict[int, Bounds]

    def with_archived(self, archived: Archived) -> TopicView:
        """Returns the view with the stretches that files hold."""
        found = {p: archived.get(TopicPartition(self.topic, p), ()) for p in self.bounds}
        return replace(self, bounds={p: replace(its, archived=found[p]) for p, its in self.bounds.items()})

    @property
    def topics(self) -> tuple[TopicView, ...]:
        """Returns the topics of the reading: this one."""
        return (self,)

    @property
    def partitions(self) -> dict[TopicPartition, Bounds]:
        """Returns the bounds of each partition of the reading."""
        return {TopicPartition(self.topic, p): bounds for p, bounds in self.bounds.items()}

    def log_of(self, topic: str) -> tuple[str, str, str] | None:
        """Returns (cluster id, topic, topic id) of a topic, or None if the reading has no such topic."""
        return (self.cluster_id, self.topic, self.topic_id) if topic == self.topic else None

    def get(self, at: TopicPartition) -> Bounds | None:
        """Returns the bounds of a partition, or None if the reading has no such partition."""
        return self.bounds.get(at.partition) if at.topic == self.topic else None

    def __getitem__(self, at: TopicPartition) -> Bounds:
        if at.topic != self.topic:
            raise KeyError(str(at))
        return self.bounds[at.partition]

    def option(self, topic: str) -> str:  # noqa: ARG002 - as a reading of several topics
        """Returns the option that names a topic on the command line: none, since there is one topic."""
        return ""


@dataclass(frozen=True, slots=True)
class TopicViews:
    """One reading of the broker over several topics of one cluster. Topics that are not there have no view."""

    cluster_id: str
    topics: tuple[TopicView, ...]
    _by_name: dict[str, TopicView] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {view.topic: view for view in self.topics})

    @property
    def partitions(self) -> dict[TopicPartition, Bounds]:
        """Returns the bounds of each partition of the reading."""
        return {at: bounds for view in self.topics for at, bounds in view.partitions.items()}

    def of(self, topic: str) -> TopicView | None:
        """Returns the view of a topic, or None if it was not there."""
        return self._by_name.get(topic)

    def log_of(self, topic: str) -> tuple[str, str, str] | None:
        """Returns (cluster id, topic, topic id) of a topic, or None if it was not there."""
        found = self.of(topic)
        return found.log_of(topic) if found else None

    def with_archived(self, archived: Archived) -> TopicViews:
        """Returns the views with the stretches that files hold."""
        return replace(self, topics=tuple(each.with_archived(archived) for each in self.topics))

    def get(self, at: TopicPartition) -> Bounds | None:
        """Returns the bounds of a partition, or None if it was not there."""
        found = self.of(at.topic)
        return found.get(at) if found else None

    def __getitem__(self, at: TopicPartition) -> Bounds:
        return self._by_name[at.topic][at]

    def option(self, topic: str) -> str:
        """Returns the option that names a topic on the command line."""
        return f" --topic {topic}"


LogView = TopicView | TopicViews


@dataclass(frozen=True, slots=True, order=True)
class Stream:
    """One incarnation of a partition in one pipeline. `position` is the next offset for its live lane to commit.

    `epoch` orders incarnations for `Upsert`: a record of a later epoch is newer whatever its offset (T12).
    """

    stream_id: int
    topic_partition: TopicPartition
    cluster_id: str
    topic_id: str
    incarnation: int
    epoch: int
    start_offset: int
    position: int
    leader_epoch: int | None = field(
        default=None, compare=False
    )  # the log was last seen under it, whole up to the position

    @property
    def partition(self) -> int:
        """Returns the partition's number."""
        return self.topic_partition.partition

    @property
    def log(self) -> tuple[str, str, str]:
        """Returns (cluster id, topic, topic id) of the log that is read."""
        return self.cluster_id, self.topic_partition.topic, self.topic_id


@dataclass(frozen=True, slots=True, order=True)
class StreamRange:
    """A stream and the offsets of it that a batch works on. They will be one segment of coverage."""

    stream_id: int
    offsets: OffsetRange
