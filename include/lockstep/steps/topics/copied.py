"""Finds where a stream goes on in a copy of its topic, with a consumer of its own."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lockstep.adapters.kafka.epochs import milliseconds_of
from lockstep.adapters.kafka.reading import record_headers
from lockstep.core.changes.moving import (
    LEAST_MATCHED,
    MOST_COMPARED,
    CopyLacksRecords,
    MovedStream,
    Search,
    Trail,
    fingerprint,
    first_missing,
    proved_place,
)
from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.offsets import Bounds, Stream, TopicView

COPY_SECONDS = 10.0  # a copy by MirrorMaker is a moment behind
SECONDS_BETWEEN_COPIES = 0.5


@dataclass(frozen=True, slots=True)
class CopiedTopic:
    """The topic to move to, the broker that has it, and the options that name both on the command line."""

    topic: str
    broker: Broker
    words: str
    seconds: float = COPY_SECONDS

    def again(self, pipeline: str) -> str:
        """Returns the command that shows the move anew."""
        return f"lockstep move {pipeline} {self.words}"


def prints_of(broker: Broker, where: tuple[str, int], begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yields offset and fingerprint of each visible record of [begin, end) in one partition of one topic."""
    for record in broker.records(*where, begin, end):
        yield record.offset(), _print_of(record)


def _print_of(record: Any) -> bytes:
    return fingerprint(record.key(), record.value(), milliseconds_of(record), record_headers(record))


def goes_on(
    broker: Broker, stream: Stream, view: TopicView, copied: CopiedTopic, name: str, *, compacts: bool
) -> MovedStream:
    """Returns where one stream goes on. The old log's end is the one of `view`. Looks at the copy until it reaches as far."""
    bounds, at, again = view[stream.topic_partition], stream.topic_partition, copied.again(name)
    if bounds.log_start > stream.position:
        raise Refusal(
            f"{at}: the log starts at {bounds.log_start}, and the position is {stream.position}",
            next_command=f"lockstep run {name}, then {again}",
        )
    trail, first, earliest = _trail(broker, stream, bounds)
    if not trail.is_proof:
        raise Refusal(
            f"{at}: the log holds {len(trail.prints)} records before the position {stream.position}, and {LEAST_MATCHED} prove "
            "a place",
            next_command=f"wait for new records, lockstep run {name}, then {again}",
        )
    until = time.monotonic() + copied.seconds
    while True:
        try:
            return _placed(broker, stream, bounds, copied, (trail, first, earliest), again, compacts=compacts)
        except CopyLacksRecords:
            if time.monotonic() >= until:
                raise
        time.sleep(SECONDS_BETWEEN_COPIES)


def _trail(broker: Broker, stream: Stream, bounds: Bounds) -> tuple[Trail, int, datetime | None]:
    """Returns the last records before the position, the offset of the first of them, and their earliest time.

    The time is None if one of them has none.
    """
    begin, stride, count = stream.position, 2 * MOST_COMPARED, 0
    found: deque[tuple[int, int | None, bytes]] = deque(maxlen=MOST_COMPARED)
    while begin > bounds.log_start and count <= MOST_COMPARED:
        begin, stride, count = max(bounds.log_start, stream.position - stride), 8 * stride, 0
        found.clear()
        at = stream.topic_partition
        for record in broker.records(at.topic, at.partition, begin, stream.position):
            found.append((record.offset(), milliseconds_of(record), _print_of(record)))
            count += 1
    stamps = [stamp for _, stamp, _ in found]
    known = [stamp for stamp in stamps if stamp is not None]
    earliest = datetime.fromtimestamp(min(known) / 1000, UTC) if known and len(known) == len(stamps) else None
    trail = Trail(tuple(one for _, _, one in found), is_whole=begin == 0 and count <= MOST_COMPARED)
    return trail, found[0][0] if found else begin, earliest


def _placed(
    broker: Broker,
    stream: Stream,
    bounds: Bounds,
    copied: CopiedTopic,
    known: tuple[Trail, int, datetime | None],
    again: str,
    *,
    compacts: bool,
) -> MovedStream:
    trail, first, earliest = known
    partition, old = stream.partition, stream.topic_partition
    there = copied.broker.view(copied.topic)
    held = there.bounds[partition]
    begin = held.log_start
    if earliest is not None and not trail.is_whole:
        # No record of that time or a later one lies before this offset, so the search misses no place.
        begin = copied.broker.offsets_at(replace(there, bounds={partition: held}), earliest)[partition]
    where = (copied.topic, partition)
    search = Search(trail, from_start=begin <= held.log_start)
    search.through(prints_of(copied.broker, where, begin, held.stable_end))
    words, copy = f"{old} [{first}, {stream.position})", f"{copied.topic}-{partition}"
    match = proved_place(search, words, copy, held, again, compacts=compacts)
    lacking, waiting = first_missing(
        prints_of(broker, (old.topic, partition), stream.position, bounds.stable_end),
        prints_of(copied.broker, where, match.offset, held.stable_end),
    )
    if lacking is not None:
        raise CopyLacksRecords(
            f"{old} offset {lacking} is not in {copy} [{match.offset}, {held.stable_end}), behind the match: it is behind, or "
            "lacks records",
            next_command=f"wait for the copy, then {again}",
        )
    return MovedStream(stream, match.offset, match.matched, waiting)
