"""Detects a log that lost its end and grew past the position again, by leader epochs and last records.

Kafka draws a new leader epoch with every election, and a record keeps the epoch that it was written under. The log was
last seen under some epoch. Unless the log was truncated since, no record below the position has a later one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lockstep.adapters.kafka.epochs import epoch_of, milliseconds_of
from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.planning.blocked import has_new_epoch, truncated
from lockstep.core.planning.decisions import Blocked
from lockstep.ledger.batch import one_log as ledger
from lockstep.ledger.batch.streams import open_streams

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from psycopg2.extensions import connection, cursor

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.offsets import LogView, Stream, TopicView
    from lockstep.core.pipeline.definition import Pipeline


@dataclass(frozen=True, slots=True)
class Look:
    """The streams whose leader epoch changed, and the broken ones among them.

    `compared` has the (position, epoch) at which each was compared. `broken` has the reason for each that is broken.
    """

    compared: Mapping[int, tuple[int, int | None]] = field(default_factory=dict)
    broken: Mapping[int, str] = field(default_factory=dict)
    view: LogView | None = None

    def blocked(self, name: str, streams: Iterable[Stream]) -> Blocked | None:
        """Returns Blocked for the first broken one of these streams, or None."""
        for stream in streams:
            if why := self.broken.get(stream.stream_id):
                option = self.view.option(stream.topic_partition.topic) if self.view else ""
                return Blocked(
                    f"{stream.topic_partition}: {why}",
                    f"lockstep retire {name}{option} --partition {stream.partition} --reason ...",
                )
        return None

    def is_stale(self, streams: Iterable[Stream], view: LogView) -> bool:
        """Returns True if a stream must be looked at again.

        It moved, or was seen under another epoch, since it was compared.
        """
        return any(
            self.compared.get(s.stream_id) != (s.position, s.leader_epoch) for s in streams if has_new_epoch(s, view)
        )


def look(conn: connection, broker: Broker, streams: Sequence[Stream], view: LogView) -> Look:
    """Compares the last committed record of each stream whose partition has another leader epoch by now.

    Asks the broker for nothing as long as no leader changed. Must run outside a ledger transaction (T6).
    """
    changed = [stream for stream in streams if has_new_epoch(stream, view)]
    if not changed:
        return Look()
    with transaction(conn, READER) as cur:
        known = ledger.last_records(cur, [stream.stream_id for stream in changed])
    broken = {s.stream_id: why for s in changed if (why := _difference(broker, s, view, known.get(s.stream_id)))}
    return Look({s.stream_id: (s.position, s.leader_epoch) for s in changed}, broken, view)


def keep_epochs(cur: cursor, streams: Iterable[Stream], view: LogView, *, resumed: int | None = None) -> None:
    """Keeps the epochs of a view that was compared, for streams whose log reaches up to the position.

    An epoch never goes back: an older broker may have answered. Offsets that a live batch has read under the older
    leader may have been truncated since. So the epoch stays while such a batch can commit, unless it is `resumed` by a
    new attempt.
    """
    changed = [s for s in streams if has_new_epoch(s, view) and s.position <= view[s.topic_partition].stable_end]
    epochs = [(s, view[s.topic_partition].leader_epoch or 0) for s in changed]
    newer = [(s, epoch) for s, epoch in epochs if s.leader_epoch is None or epoch > s.leader_epoch]
    seen = [(s.stream_id, s.position, epoch) for s, epoch in newer]
    if resumed is None:
        ledger.keep_leader_epochs(cur, seen)
    else:
        ledger.keep_resumed_epochs(cur, resumed, seen)


def require_one_log(conn: connection, broker: Broker, pipeline: Pipeline, view: LogView) -> None:
    """Refuses while an open stream of today's log is truncated, or lost its end and grew past the position again."""
    with transaction(conn, READER) as cur:
        streams = open_streams(cur, pipeline.name)
    blocked = truncated(pipeline.name, streams, view) or look(conn, broker, streams, view).blocked(
        pipeline.name, streams
    )
    if blocked:
        raise Refusal(blocked.reason, next_command=blocked.next_command)


def truncation_point(broker: Broker, stream: Stream, view: TopicView) -> tuple[int | None, str]:
    """Returns the first offset of today's log that does not hold the stream's record any more.

    Returns None with the reason if it is not proved.
    """
    bounds = view.bounds[stream.partition]
    known, now = stream.leader_epoch, bounds.leader_epoch
    if known is None or now is None:
        return None, "no leader epoch was kept for the stream"
    if now <= known:
        return None, f"the leader epoch is {now}, and was {known} when the log was last seen whole"
    low, high = bounds.log_start, min(broker.high_ends(view)[stream.partition], stream.position)
    end = max(low, high)
    while low < high:  # epochs only grow along a log
        middle = (low + high) // 2
        record = next(broker.records(view.topic, stream.partition, middle, end, committed=False), None)
        if record is None:
            high = middle
        elif (epoch := epoch_of(record.leader_epoch())) is None:
            return None, f"the record at offset {record.offset()} has no leader epoch"
        elif epoch > known:
            high = middle
        else:
            low = record.offset() + 1
    if low > bounds.stable_end:
        return None, f"a transaction is open from offset {bounds.stable_end} on, below the truncation at {low}"
    if low >= stream.position:
        return None, f"no record below {stream.position} has a leader epoch later than {known}"
    return low, ""


def _difference(broker: Broker, stream: Stream, view: LogView, known: Any | None) -> str | None:
    """Returns the sign that other records stand below the position now, or None.

    A missing record is no sign, because compaction may have removed it.
    """
    bounds = view[stream.topic_partition]
    if stream.leader_epoch is None or bounds.stable_end < stream.position:
        return None  # nothing to compare with, or a truncated log, which its end tells
    where = f"the log lost its end and grew past the position {stream.position} again: the record at offset "
    last = stream.position - 1 if known is None else known.last_offset
    for record in _nearest_below(broker, stream, view, max(bounds.log_start, last)):
        epoch = epoch_of(record.leader_epoch())
        if epoch is not None and epoch > stream.leader_epoch:
            return f"{where}{record.offset()} has leader epoch {epoch}, and the log was last seen under {stream.leader_epoch}"
        if known is not None and record.offset() == known.last_offset and not _is_within(record, known):
            return f"{where}{record.offset()} has another timestamp than the one that was committed"
    return None


def _nearest_below(broker: Broker, stream: Stream, view: LogView, begin: int) -> Iterator[Any]:
    """Reads the records from `begin` up to the position. Goes back in growing strides if none of them is left."""
    end, found = stream.position, False
    log_start = view[stream.topic_partition].log_start
    while not found and begin < end:
        for record in broker.records(stream.topic_partition.topic, stream.partition, begin, end, committed=False):
            found = True
            yield record
        begin, end = max(log_start, begin - 2 * (stream.position - begin)), begin


def _is_within(record: Any, known: Any) -> bool:
    """Returns True if the record's time is one that its segment had, or if either has no time."""
    stamp = milliseconds_of(record)
    if stamp is None or known.min_timestamp is None or known.max_timestamp is None:
        return True
    first, last = (round(at.timestamp() * 1000) for at in (known.min_timestamp, known.max_timestamp))
    return bool(first <= stamp <= last)
