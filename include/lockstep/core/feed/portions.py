"""Cuts a feed into the transactions of its topic: whole change sets, up to a number of bytes (E18)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lockstep.core.feed.relaying import FeedRecord

MOST_SENT = 50_000  # changes of one Kafka transaction
MOST_SENT_BYTES = 32 * 2**20  # of its records
LEAST_SENT_BYTES = 2**20  # that are tried into a slow topic
BYTES_BESIDE = 160  # of a record: its headers


@dataclass(slots=True)
class Portion:
    """The records of one transaction, to be read once. They are of the changes below `until`.

    A set that does not fit behind others waits for the next transaction. One that alone does not fit is cut. A single
    change is sent at any size. `until` says where the portion ends, once it is read.
    """

    records: Iterable[FeedRecord]
    until: int
    most_bytes: int

    def __iter__(self) -> Iterator[FeedRecord]:
        """Yields the records, and moves `until` to behind the last one if the others do not fit."""
        size, first_seq, last = 0, None, None
        waiting: list[FeedRecord] = []  # of a set that may not fit
        for record in self.records:
            first_seq = record.seq if first_seq is None else first_seq
            if waiting and waiting[0].seq != record.seq:
                last = waiting[-1].number
                yield from waiting
                waiting = []
            size += len(record.key or b"") + len(record.value or b"") + BYTES_BESIDE
            if size > self.most_bytes and last is not None and record.number != last:
                self.until = last + 1
                return
            if record.seq == first_seq:
                last = record.number
                yield record
            else:
                waiting.append(record)
        yield from waiting
