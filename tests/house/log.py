"""A log without a broker: what a topic would hold, with every record remembered, so that nothing can be lost unseen."""

from __future__ import annotations

import json
import uuid
import zlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from confluent_kafka import TIMESTAMP_CREATE_TIME

from lockstep.core.offsets import Bounds, TopicView

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Record:
    """A visible record; `value` None is a deletion, anything but a JSON object a reject."""

    key: bytes
    value: bytes | None
    at: datetime
    leader_epoch: int = 0


def sealed(content: dict) -> bytes:
    """The value of a record with this content and its checksum."""
    crc = zlib.crc32(json.dumps(content, sort_keys=True).encode())
    return json.dumps(content | {"crc": crc}).encode()


@dataclass
class Part:
    """One partition's content: offset → record, None where a marker or an aborted record stands."""

    records: dict[int, Record | None] = field(default_factory=dict)
    log_start: int = 0
    end: int = 0
    stable_end: int = 0
    leader_epoch: int = 0
    before: Part | None = None  # what it was cut from, and where
    cut: int = 0

    def holds(self, older: Part, until: int) -> bool:
        """Whether below this offset stands what the older content held: it is the same, or was cut past the offset."""
        part = self
        while part is not older and part.before is not None and part.cut >= until:
            part = part.before
        return part is older

    def visible(self, begin: int, end: int) -> dict[int, Record]:
        """What a committed reader is given of [begin, end)."""
        return {o: r for o in range(max(begin, 0), end) if (r := self.records.get(o)) is not None}


@dataclass(frozen=True)
class Spliced:
    """What a stream reads that goes on in another log: the older content below an offset, today's from there on."""

    older: Part | Spliced
    today: Part
    at: int

    def visible(self, begin: int, end: int) -> dict[int, Record]:
        """What a committed reader was given of [begin, end)."""
        return self.older.visible(begin, min(end, self.at)) | self.today.visible(max(begin, self.at), end)


class Log:
    """One topic. Each method is something that happens to topics.

    Each record has an id of its own (`uid`) and a checksum of its content (`crc`), also across truncations.
    With `anywhere` a key stands in any partition; its records come with ranks that repeat, and some with no number.
    """

    def __init__(self, topic: str, partitions: int, *, anywhere: bool = False) -> None:
        self.topic = topic
        self.anywhere = anywhere
        self.cluster_id = "cluster"
        self.topic_id = uuid.uuid4().hex
        self.parts = [Part() for _ in range(partitions)]
        self.made = 0
        self.truncations = 0

    def produce(self, partition: int, n: int, *, kind: str = "data", keys: int = 7) -> None:
        """`n` records: data, deletions, garbage; or a transaction: committed (with its marker), aborted, or left open."""
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
            value = sealed(content)
            value = {"deletion": None, "garbage": b"{no json"}.get(kind, value)
            at = BEGINNING + timedelta(seconds=self.made)
            part.records[part.end] = None if kind == "aborted" else Record(key.encode(), value, at, part.leader_epoch)
            part.end += 1
        if kind in {"aborted", "committed"}:
            part.records[part.end] = None  # the marker
            part.end += 1
        if kind != "open" and part.stable_end == part.end - n - (kind in {"aborted", "committed"}):
            part.stable_end = part.end

    def close_transactions(self, partition: int) -> None:
        """Whatever was open is committed."""
        self.parts[partition].stable_end = self.parts[partition].end

    def compact(self, partition: int, begin: int) -> None:
        """Of each key only the newest record stays, in offsets that nobody has read yet."""
        records = self.parts[partition].records
        newest = {r.key: o for o, r in sorted(records.items()) if r}
        for offset, record in records.items():
            if record and offset >= begin and newest[record.key] != offset:
                records[offset] = None

    def trim(self, partition: int, until: int) -> None:
        """Retention: the log starts later now; what was there stays remembered."""
        part = self.parts[partition]
        part.log_start = max(part.log_start, min(until, part.stable_end))

    def truncate(self, partition: int, end: int) -> None:
        """An unclean election: the log ends earlier, and other records will stand there."""
        self.truncations += 1
        old = self.parts[partition]
        kept = {o: r for o, r in old.records.items() if o < end}
        self.parts[partition] = Part(kept, min(old.log_start, end), end, end, old.leader_epoch + 1, old, end)

    def elect(self, partition: int) -> None:
        """A clean election: another leader, the same records."""
        self.parts[partition].leader_epoch += 1

    def grow(self, partitions: int) -> None:
        """New, empty partitions."""
        self.parts += [Part() for _ in range(partitions)]

    def recreate(self) -> None:
        """Deleted and created again under the same name."""
        self.topic_id = uuid.uuid4().hex
        self.parts = [Part() for _ in self.parts]


@dataclass(frozen=True)
class Message:
    """A record as Kafka's client hands it over."""

    at: int
    record: Record

    def offset(self) -> int:
        return self.at

    def leader_epoch(self) -> int:
        return self.record.leader_epoch

    def timestamp(self) -> tuple[int, int]:
        return TIMESTAMP_CREATE_TIME, int(self.record.at.timestamp() * 1000)

    def value(self) -> bytes | None:
        return self.record.value


class SayingLog:
    """A broker over such a log, as the steps ask one."""

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
        found = {}
        for p, bounds in view.bounds.items():
            later = (
                o
                for o, r in sorted(self.log.parts[p].records.items())
                if r and r.at >= moment and o >= bounds.log_start
            )
            found[p] = min(next(later, bounds.stable_end), bounds.stable_end)
        return found

    def high_ends(self, view: TopicView) -> dict[int, int]:
        return {p: self.log.parts[p].end for p in view.bounds}

    def records(
        self, topic: str, partition: int, from_offset: int, until_offset: int, *, committed: bool = True
    ) -> Iterator[Message]:
        assert topic == self.log.topic
        part = self.log.parts[partition]
        until = min(until_offset, part.stable_end if committed else part.end)
        return (Message(o, record) for o, record in sorted(part.visible(from_offset, until).items()))

    def retention(self, topic: str) -> None:
        assert topic == self.log.topic

    def mirror(self, group: str, topic: str, positions: Mapping[int, int]) -> None:
        """Nobody looks."""
