"""Provides a log without a broker. It remembers every record of a topic, so that no loss goes unseen."""

from __future__ import annotations

import json
import uuid
import zlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from confluent_kafka import TIMESTAMP_CREATE_TIME

from lockstep.core.offsets import Bounds, TopicPartition, TopicView

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lockstep.adapters.kafka.broker import Broker as AnyBroker
else:
    AnyBroker = object  # only mypy takes it for one

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Record:
    """A visible record. A `value` of None is a deletion, and anything but a JSON object is a reject."""

    key: bytes
    value: bytes | None
    at: datetime
    leader_epoch: int = 0


def sealed(content: dict) -> bytes:
    """Returns the value of a record with this content and its checksum."""
    crc = zlib.crc32(json.dumps(content, sort_keys=True).encode())
    return json.dumps(content | {"crc": crc}).encode()


@dataclass
class Part:
    """One partition's content: offset → record, None for a marker or an aborted record."""

    records: dict[int, Record | None] = field(default_factory=dict)
    log_start: int = 0
    end: int = 0
    stable_end: int = 0
    leader_epoch: int = 0
    before: Part | None = None  # what it was cut from, and where
    cut: int = 0

    def holds(self, older: Part, until: int) -> bool:
        """Returns True if the older content still stands below this offset.

        It is then the same content, or was cut past the offset.
        """
        part = self
        while part is not older and part.before is not None and part.cut >= until:
            part = part.before
        return part is older

    def visible(self, begin: int, end: int) -> dict[int, Record]:
        """Returns the records that a committed reader gets of [begin, end)."""
        return {o: r for o in range(max(begin, 0), end) if (r := self.records.get(o)) is not None}


@dataclass(frozen=True)
class Spliced:
    """The content of a stream that continues in another log: the older log below an offset, today's from there on."""

    older: Part | Spliced
    today: Part
    at: int

    def visible(self, begin: int, end: int) -> dict[int, Record]:
        """Returns the records that a committed reader got of [begin, end)."""
        return self.older.visible(begin, min(end, self.at)) | self.today.visible(max(begin, self.at), end)


class Log:
    """One topic. Each method is an event that happens to topics.

    Each record has its own id (`uid`) and a checksum of its content (`crc`), also across truncations. With `anywhere` a
    key stands in any partition. Its records then come with ranks that repeat, and some without a number. With `timed`
    they say when their event happened: most in order, some late or very late, and a few with a clock that is a year fast.
    With `steps_back` the time of a record may lie before that of the one before it.
    """

    def __init__(
        self, topic: str, partitions: int, *, anywhere: bool = False, timed: bool = False, steps_back: bool = False
    ) -> None:
        self.topic = topic
        self.anywhere = anywhere
        self.timed = timed
        self.steps_back = steps_back
        self.cluster_id = "cluster"
        self.topic_id = uuid.uuid4().hex
        self.parts = [Part() for _ in range(partitions)]
        self.made = 0
        self.truncations = 0

    def produce(self, partition: int, n: int, *, kind: str = "data", keys: int = 7) -> None:
        """Adds `n` records: data, deletions or garbage.

        They may be a transaction: committed (with its marker), aborted, or left open.
        """
        part = self.parts[partition]
        for _ in range(n):
            self.made += 1
            key = f"{partition}-{self.made % keys}"  # a key lives in one partition
            content = {"uid": self.made, "id": key, "n": self.made}
            if self.anywhere:
                drawn = self.made * 2_654_435_761 >> 7
                key = f"{drawn % keys}"
                number = None if drawn % 3 == 0 else self.made - 40
                content = {"uid": self.made, "id": key, "n": number, "rank": drawn % 11}
            if self.timed:
                drawn = self.made * 2_654_435_761 >> 9
                moved = {0: -20, 1: -60, 2: -200, 3: -7}.get(drawn % 13, 0) + (31_536_000 if drawn % 211 == 0 else 0)
                content["at"] = (BEGINNING + timedelta(seconds=2 * self.made + moved)).isoformat()
            value = sealed(content)
            value = {"deletion": None, "garbage": b"{no json"}.get(kind, value)
            at = BEGINNING + timedelta(seconds=self.made)
            if self.steps_back:
                at -= timedelta(seconds={0: 9, 1: 30, 2: 7}.get((self.made * 2_654_435_761 >> 9) % 11, 0))
            part.records[part.end] = None if kind == "aborted" else Record(key.encode(), value, at, part.leader_epoch)
            part.end += 1
        if kind in {"aborted", "committed"}:
            part.records[part.end] = None  # the marker
            part.end += 1
        if kind != "open" and part.stable_end == part.end - n - (kind in {"aborted", "committed"}):
            part.stable_end = part.end

    def close_transactions(self, partition: int) -> None:
        """Commits all open transactions."""
        self.parts[partition].stable_end = self.parts[partition].end

    def compact(self, partition: int, begin: int) -> None:
        """Keeps only the newest record of each key, among offsets that nobody has read yet."""
        records = self.parts[partition].records
        newest = {r.key: o for o, r in sorted(records.items()) if r}
        for offset, record in records.items():
            if record and offset >= begin and newest[record.key] != offset:
                records[offset] = None

    def trim(self, partition: int, until: int) -> None:
        """Applies retention: the log starts later now. The deleted records stay remembered."""
        part = self.parts[partition]
        part.log_start = max(part.log_start, min(until, part.stable_end))

    def truncate(self, partition: int, end: int) -> None:
        """Does an unclean election: the log ends earlier, and other records will stand there."""
        self.truncations += 1
        old = self.parts[partition]
        kept = {o: r for o, r in old.records.items() if o < end}
        self.parts[partition] = Part(kept, min(old.log_start, end), end, end, old.leader_epoch + 1, old, end)

    def elect(self, partition: int) -> None:
        """Does a clean election: another leader, the same records."""
        self.parts[partition].leader_epoch += 1

    def grow(self, partitions: int) -> None:
        """Adds empty partitions."""
        self.parts += [Part() for _ in range(partitions)]

    def recreate(self) -> None:
        """Deletes the topic and creates it again under the same name."""
        self.topic_id = uuid.uuid4().hex
        self.parts = [Part() for _ in self.parts]


@dataclass(frozen=True)
class Message:
    """A record as Kafka's client returns it."""

    at: int
    record: Record
    within: str
    of: int

    def __len__(self) -> int:
        return len(self.record.value or b"")

    def topic(self) -> str:
        return self.within

    def partition(self) -> int:
        return self.of

    def offset(self) -> int:
        return self.at

    def leader_epoch(self) -> int:
        return self.record.leader_epoch

    def timestamp(self) -> tuple[int, int]:
        return TIMESTAMP_CREATE_TIME, int(self.record.at.timestamp() * 1000)

    def key(self) -> bytes:
        return self.record.key

    def value(self) -> bytes | None:
        return self.record.value

    def headers(self) -> None:
        """Returns none, as the client does for a record without headers."""


class SayingLog(AnyBroker):
    """A broker over such a log, as the steps query one."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.bootstrap = "nowhere"

    def view(self, topic: str) -> TopicView:
        assert topic == self.log.topic
        bounds = {
            p: Bounds(part.log_start, part.stable_end, part.leader_epoch) for p, part in enumerate(self.log.parts)
        }
        return TopicView(self.log.cluster_id, topic, self.log.topic_id, bounds)

    def offsets_at(self, view: TopicView, moment: datetime) -> dict[int, int]:
        return {p: offset for p, (offset, _) in self.first_at(view, moment).items()}

    def first_at(self, view: TopicView, moment: datetime) -> dict[int, tuple[int, datetime | None]]:
        found: dict[int, tuple[int, datetime | None]] = {}
        for p, bounds in view.bounds.items():
            later = (
                (o, r.at)
                for o, r in sorted(self.log.parts[p].records.items())
                if r and r.at >= moment and bounds.log_start <= o < bounds.stable_end
            )
            found[p] = next(later, (bounds.stable_end, None))
        return found

    def high_ends(self, view: TopicView) -> dict[int, int]:
        return {p: self.log.parts[p].end for p in view.bounds}

    def records(  # type: ignore[override]
        self, topic: str, partition: int, from_offset: int, until_offset: int, *, committed: bool = True
    ) -> Iterator[Message]:
        assert topic == self.log.topic
        part = self.log.parts[partition]
        until = min(until_offset, part.stable_end if committed else part.end)
        return (Message(o, record, topic, partition) for o, record in sorted(part.visible(from_offset, until).items()))

    def retention(self, topic: str) -> None:
        assert topic == self.log.topic

    def mirror(self, group: str, positions: Mapping[TopicPartition, int]) -> None:
        """Does nothing, because no test looks."""
