"""Moves a pipeline to a copy of its topic: shows where each partition goes on first, then goes on at exactly those offsets."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lockstep.adapters.kafka.epochs import milliseconds_of
from lockstep.adapters.postgres import READER, transaction
from lockstep.core.changes.moving import (
    LEAST_MATCHED,
    MOST_COMPARED,
    CopyLacksRecords,
    Move,
    MovedStream,
    Search,
    Trail,
    fingerprint,
    first_missing,
    place_of,
)
from lockstep.core.errors import PositionMoved, Refusal
from lockstep.core.pipeline.names import topic_words
from lockstep.core.states import Lane
from lockstep.ledger.batch.plan import unfinished_batches
from lockstep.ledger.batch.streams import open_streams, retire_stream
from lockstep.ledger.changes import decisions, moves, requests
from lockstep.steps.batch.one_log import require_one_log
from lockstep.steps.changes.decisions import deciding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg2.extensions import connection, cursor

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.changes.person import Person
    from lockstep.core.offsets import Bounds, Stream, TopicView
    from lockstep.core.pipeline.definition import Pipeline

COPY_SECONDS = 10.0  # a copy by MirrorMaker is a moment behind
SECONDS_BETWEEN_COPIES = 0.5


@dataclass(frozen=True, slots=True)
class Copied:
    """The topic to move to, the broker that has it, and the options that name both on the command line."""

    topic: str
    broker: Broker
    words: str
    seconds: float = COPY_SECONDS


@dataclass(frozen=True, slots=True)
class Moved:
    """The decision of a move, and the person. `shown` is None if an earlier call has decided the same."""

    decision: int
    who: str
    shown: Move | None = None


def preview_move(conn: connection, broker: Broker, pipeline: Pipeline, copied: Copied) -> Move:
    """Returns where each stream goes on in the copy, proved by the records before its position.

    `broker` has the old topic. Raises `Refusal` if a place is not proved, or if the copy lacks records that the old topic
    holds behind a position. Waits a moment for a copy that is behind.
    """
    with transaction(conn, READER) as cur:
        streams = _streams(cur, pipeline, copied)
        _require_rest(cur, pipeline.name)
    was = streams[0].topic_partition.topic
    view, there = broker.view(was), copied.broker.view(copied.topic)
    if view.log_of(was) != streams[0].log:
        raise Refusal(
            f"{pipeline.name}: {was} of cluster {view.cluster_id} is not the log that it has read, which is of cluster "
            f"{streams[0].cluster_id}, and that one proves the place",
            next_command=f"let LOCKSTEP_KAFKA lead to the old cluster, and --kafka to the other one, then {_again(pipeline, copied)}",
        )
    if there.log_of(copied.topic) == streams[0].log:
        raise Refusal(f"{pipeline.name}: it reads {copied.topic} already", next_command=f"lockstep run {pipeline.name}")
    _require_same_partitions(pipeline, streams, view, there)
    require_one_log(conn, broker, pipeline, view)
    compacts = broker.compacts(was) or copied.broker.compacts(copied.topic)
    moved = tuple(_goes_on(broker, stream, view, copied, _again(pipeline, copied), compacts=compacts) for stream in streams)
    return Move(pipeline.name, there, moved, copied.words)


def move(
    conn: connection, broker: Broker, pipeline: Pipeline, copied: Copied, digest: str, person: Person
) -> Moved:
    """Closes the streams and opens their successors in the copy, as shown under this digest, in one transaction.

    Raises `Refusal` if anything moved since. A second call of the same digest changes nothing.
    """
    name = pipeline.name
    with transaction(conn, READER) as cur:
        earlier = moves.last_move(cur, name)
    if earlier and earlier.digest == digest:
        return Moved(earlier.decision_id, earlier.who)
    shown = preview_move(conn, broker, pipeline, copied)
    if shown.digest != digest:
        raise Refusal(
            f"{name}: {digest} is not what is shown now, which is {shown.digest}: a position or a log is another than it was",
            next_command=_again(pipeline, copied),
        )
    with deciding(conn, name) as cur:
        _require_rest(cur, name)
        ids = [stream.stream_id for stream in shown.streams]
        locked = decisions.lock_streams(cur, ids)
        if locked != {s.stream_id: s.position for s in shown.streams} or set(open_streams(cur, name)) != set(shown.streams):
            raise PositionMoved(
                f"{name}: its streams moved while the brokers were asked; nothing was changed",
                next_command=_again(pipeline, copied),
            )
        decision = decisions.record(cur, name, "move", person, shown.decision())
        for stream_id in ids:
            retire_stream(cur, stream_id)
        moves.open_successors(cur, shown)
    return Moved(decision, person.who, shown)


def records_of(broker: Broker, where: tuple[str, int], begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yields offset and fingerprint of each visible record of [begin, end) in one partition of one topic."""
    for record in broker.records(*where, begin, end):
        yield record.offset(), _print_of(record)


def _print_of(record: Any) -> bytes:
    return fingerprint(record.key(), record.value(), milliseconds_of(record), record.headers())


def _again(pipeline: Pipeline, copied: Copied) -> str:
    return f"lockstep move {pipeline.name} {copied.words}"


def _streams(cur: cursor, pipeline: Pipeline, copied: Copied) -> tuple[Stream, ...]:
    """Returns the open streams, which are of one topic. Refuses another definition than the old or the new one."""
    name, streams = pipeline.name, open_streams(cur, pipeline.name)
    topics = sorted({stream.topic_partition.topic for stream in streams})
    if len(topics) > 1 or not isinstance(pipeline.topic, str):
        raise Refusal(
            f"{name}: it reads {', '.join(topics) or topic_words(pipeline.topic)}, and a move takes a pipeline of one topic",
            next_command=f"lockstep status {name}",
        )
    if not topics:
        raise Refusal(
            f"{name}: it has not planned yet, so there is nothing to move",
            next_command=f"say topic={copied.topic!r} in its definition, then lockstep run {name}",
        )
    if pipeline.topic not in {topics[0], copied.topic}:
        raise Refusal(
            f"{name}: it reads {topics[0]}, and its definition says {pipeline.topic}, which is neither that nor {copied.topic}",
            next_command=f"put it back, then {_again(pipeline, copied)}",
        )
    if moves.has_own_line(cur, [stream.stream_id for stream in streams], copied.topic):
        raise Refusal(
            f"{name}: it has read {copied.topic} beside {topics[0]}, so that is no copy of it",
            next_command=f"lockstep new ANOTHER_NAME --topic {copied.topic}",
        )
    return streams


def _require_rest(cur: cursor, name: str) -> None:
    """Refuses while a batch or a request is not finished, and says how to finish it."""
    for batch in unfinished_batches(cur, name, None):
        on = f"run {name}" if batch.request_id is None else f"{batch.lane} {name} --request {batch.request_id}"
        end = f"lockstep abandon {batch.batch_id} --reason ..."
        raise Refusal(
            f"{name}: batch {batch.batch_id} is planned and not committed, and it reads the old topic",
            next_command=end if batch.is_preview else f"lockstep {on}, or {end}",
        )
    for request in requests.open_requests(cur, name):
        raise Refusal(
            f"{name}: request {request.request_id} to {request.lane} is not finished, and it is about the old topic",
            next_command=f"lockstep {Lane(request.lane)} {name} --request {request.request_id}",
        )


def _require_same_partitions(
    pipeline: Pipeline, streams: Sequence[Stream], view: TopicView, there: TopicView
) -> None:
    read = {stream.partition for stream in streams}
    if new := sorted(view.bounds.keys() - read):
        raise Refusal(
            f"{view.topic}-{new[0]}: the partition is new, and nothing has planned it yet",
            next_command=f"lockstep run {pipeline.name}",
        )
    if read != there.bounds.keys():
        raise Refusal(
            f"{pipeline.name}: {view.topic} has {len(read)} partitions and {there.topic} {len(there.bounds)}: a record may be "
            "in any of them",
            next_command=f"copy into {len(read)} partitions, or lockstep new ANOTHER_NAME --topic {there.topic}",
        )


def _goes_on(
    broker: Broker, stream: Stream, view: TopicView, copied: Copied, again: str, *, compacts: bool
) -> MovedStream:
    """Returns where one stream goes on. The old log's end is the one of `view`. Looks at the copy until it reaches as far."""
    bounds, at = view[stream.topic_partition], stream.topic_partition
    if bounds.log_start > stream.position:
        raise Refusal(
            f"{at}: the log starts at {bounds.log_start}, and the position is {stream.position}",
            next_command=f"lockstep run {_name_of(again)}, then {again}",
        )
    trail, first, earliest = _trail(broker, stream, bounds)
    if not trail.is_proof:
        raise Refusal(
            f"{at}: the log holds {len(trail.prints)} records before the position {stream.position}, and {LEAST_MATCHED} prove "
            "a place",
            next_command=f"lockstep run {_name_of(again)} when there are new records, then {again}",
        )
    until = time.monotonic() + copied.seconds
    while True:
        try:
            return _placed(broker, stream, bounds, copied, (trail, first, earliest), again, compacts=compacts)
        except CopyLacksRecords:
            if time.monotonic() >= until:
                raise
        time.sleep(SECONDS_BETWEEN_COPIES)


def _name_of(again: str) -> str:
    return again.split()[2]


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
    copied: Copied,
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
    search.through(records_of(copied.broker, where, begin, held.stable_end))
    words, copy = f"{old} [{first}, {stream.position})", f"{copied.topic}-{partition}"
    match = place_of(search, words, copy, held, again, compacts=compacts)
    lacking, waiting = first_missing(
        records_of(broker, (old.topic, partition), stream.position, bounds.stable_end),
        records_of(copied.broker, where, match.offset, held.stable_end),
    )
    if lacking is not None:
        raise CopyLacksRecords(
            f"{old} offset {lacking} is not in {copy} [{match.offset}, {held.stable_end}), where the copy goes on: it is behind, "
            "or lacks records",
            next_command=f"wait for the copy, then {again}",
        )
    return MovedStream(stream, match.offset, match.matched, waiting)
