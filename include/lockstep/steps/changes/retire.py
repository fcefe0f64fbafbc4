"""Closes a stream whose log is not the same log any more, and begins today's log anew (T7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import PositionMoved, Refusal
from lockstep.core.offsets import TopicPartition
from lockstep.ledger.batch.streams import open_new_streams, open_streams, retire_stream
from lockstep.ledger.changes import decisions
from lockstep.ledger.changes.requests import close_requests_of
from lockstep.steps.batch.one_log import look, truncation_point
from lockstep.steps.changes.decisions import deciding, lock_and_abandon, stream_of
from lockstep.steps.topics.leave_topic import is_left, leave_topic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.changes.person import Person
    from lockstep.core.offsets import Stream, TopicView
    from lockstep.core.pipeline.definition import Pipeline

StreamStart = Literal["truncation", "log-start"] | int
TRUNCATION: Final = "truncation"
LOG_START: Final = "log-start"
READINGS_OF_A_TRUNCATION = 3  # one stale broker's answer is no proof (T6)


@dataclass(frozen=True, slots=True)
class Retirement:
    """The closed streams, each with what was wrong, the starts of their successors, and the abandoned batches."""

    retired: tuple[tuple[Stream, str], ...]
    abandoned: tuple[int, ...]
    opened: Mapping[int, int]


def retire(
    conn: connection,
    broker: Broker,
    pipeline: Pipeline,
    partition: int | None,
    person: Person,
    start: StreamStart = TRUNCATION,
    topic: str | None = None,
) -> Retirement:
    """Closes the streams whose log was recreated, truncated or removed, and opens their successors.

    Of several topics it closes those of one. A topic that is gone, or that the definition does not name, is left for good.

    A recreated topic begins at log start. A truncated log begins at the truncation, at log start, or at an offset that
    the person names. Refuses while nothing is wrong with the log, and while the point of a truncation cannot be proved.
    """
    if isinstance(start, int) and partition is None:
        raise Refusal(
            f"{pipeline.name}: --from {start} is an offset of one partition", next_command="name it: --partition"
        )
    named, topic = topic is not None, pipeline.one_topic(topic)
    if named and is_left(broker, pipeline, topic):
        return Retirement(*leave_topic(conn, pipeline, topic, person), {})
    with transaction(conn, READER) as cur:
        streams = tuple(s for s in open_streams(cur, pipeline.name) if not named or s.topic_partition.topic == topic)
        claimed = decisions.claimed_until(cur, pipeline.name)
    if partition is not None:
        streams = (stream_of(streams, pipeline, TopicPartition(topic, partition)),)
    view, wrong, broken = _what_is_wrong(conn, broker, pipeline, topic, streams, claimed)
    sick = [stream for stream in streams if stream.stream_id in wrong]
    ids = [stream.stream_id for stream in sick]
    well = {stream.partition for stream in streams} - {stream.partition for stream in sick}
    starts = _starts(view, sick, well, all_partitions=partition is None)
    for stream in (s for s in sick if s.partition in starts and start != LOG_START and _is_same_log(s, view)):
        # In a log that ends within a planned batch, nothing past the position was committed.
        is_whole = stream.stream_id not in broken and view.bounds[stream.partition].stable_end >= stream.position
        begin = stream.position if is_whole and start == TRUNCATION else None
        starts[stream.partition] = _start(broker, pipeline, view, stream, start) if begin is None else begin
    with deciding(conn, pipeline.name) as cur:
        of_partitions = decisions.streams_of_partitions(
            cur, pipeline.name, topic, {*starts, *(s.partition for s in sick)}
        )
        abandoned = lock_and_abandon(cur, decisions.claiming(cur, of_partitions), person)
        if decisions.lock_streams(cur, ids) != {s.stream_id: s.position for s in sick} or not (
            set(ids) <= {s.stream_id for s in open_streams(cur, pipeline.name)}
        ):
            raise PositionMoved(
                f"{pipeline.name}: its streams moved while the broker was asked; nothing was changed",
                next_command=f"lockstep status {pipeline.name}, then again",
            )
        decisions.release_claims(cur, abandoned)
        detail = {
            "retired": [{"stream_id": s.stream_id, "position": s.position, "why": wrong[s.stream_id]} for s in sick],
            "opened": [{"partition": p, "start_offset": begin} for p, begin in starts.items()],
            "from": start,
            "abandoned": abandoned,
        }
        decisions.record(cur, pipeline.name, "retire", person, detail)
        for stream_id in ids:
            retire_stream(cur, stream_id)
        close_requests_of(cur, streams=of_partitions)
        open_new_streams(cur, pipeline.name, view, starts, same_log=False)
    return Retirement(tuple((s, wrong[s.stream_id]) for s in sick), tuple(abandoned), starts)


def _what_is_wrong(
    conn: connection,
    broker: Broker,
    pipeline: Pipeline,
    topic: str,
    streams: Sequence[Stream],
    claimed: Mapping[int, int],
) -> tuple[TopicView, dict[int, str], set[int]]:
    for _ in range(READINGS_OF_A_TRUNCATION):
        view = broker.view(topic)
        broken = look(conn, broker, streams, view).broken
        short = {s.stream_id: why for s in streams if (why := _wrong(s, view, claimed.get(s.stream_id, 0)))}
        wrong = {**short, **broken}
        if not wrong:
            _refuse_healthy(pipeline, streams, view)
        if all((s.cluster_id, s.topic_id) != (view.cluster_id, view.topic_id) for s in streams if s.stream_id in wrong):
            break
    return view, wrong, set(broken)


def _wrong(stream: Stream, view: TopicView, claimed_until: int) -> str | None:
    if stream.topic_partition.topic != view.topic:
        raise Refusal(
            f"{stream.topic_partition}: the definition names the topic {view.topic} now; a pipeline keeps its topic for good",
            next_command=f"put it back, or lockstep new ANOTHER_NAME --topic {view.topic}",
        )
    if stream.cluster_id != view.cluster_id:
        return f"cluster id {stream.cluster_id} became {view.cluster_id}"
    if stream.topic_id != view.topic_id:
        return f"topic id {stream.topic_id} became {view.topic_id}"
    if stream.partition not in view.bounds:
        return "the partition is gone"
    end = view.bounds[stream.partition].stable_end
    if end < stream.position:
        return f"truncated: the log ends at {end}, below the position {stream.position}"
    if end < claimed_until:
        return f"truncated: the log ends at {end}, and a batch was planned up to {claimed_until}"
    return None


def _refuse_healthy(pipeline: Pipeline, streams: Sequence[Stream], view: TopicView) -> None:
    for stream in streams:
        log_start, option = view.bounds[stream.partition].log_start, pipeline.topic_option(view.topic)
        if log_start > stream.position:
            raise Refusal(
                f"{stream.topic_partition}: it is the same log, only [{stream.position}, {log_start}) was deleted from it",
                next_command=f"lockstep accept-loss {pipeline.name}{option} --partition {stream.partition} "
                f"--from {stream.position} --until {log_start} --reason ...",
            )
    what = ", ".join(str(stream.topic_partition) for stream in streams) or "no stream yet"
    raise Refusal(
        f"{pipeline.name}: nothing is wrong with {what}: the same log, and it holds what was read from it",
        next_command=f"lockstep status {pipeline.name}",
    )


def _starts(view: TopicView, sick: Sequence[Stream], well: set[int], *, all_partitions: bool) -> dict[int, int]:
    """Returns the log starts of the successors.

    A recreated topic begins in all of its partitions, which share one epoch. Partitions that are `well` have a stream
    of today's log already.
    """
    recreated = not all(_is_same_log(stream, view) for stream in sick)
    wanted = set(view.bounds) - well if all_partitions and recreated else {s.partition for s in sick}
    return {p: bounds.log_start for p, bounds in view.bounds.items() if p in wanted}


def _is_same_log(stream: Stream, view: TopicView) -> bool:
    """Returns True if the topic was not recreated: its end is wrong, or a partition is gone."""
    return (stream.cluster_id, stream.topic_id) == (view.cluster_id, view.topic_id)


def _start(broker: Broker, pipeline: Pipeline, view: TopicView, stream: Stream, start: StreamStart) -> int:
    """Returns the start of the successor in a truncated log.

    No record is read twice, and no new record is left out.
    """
    bounds = view.bounds[stream.partition]
    most = min(stream.position, bounds.stable_end)
    if isinstance(start, int):
        if not bounds.log_start <= start <= most:
            raise Refusal(
                f"{stream.topic_partition}: --from {start} is outside of [{bounds.log_start}, {most}], where the log was "
                "truncated",
                next_command=f"lockstep status {pipeline.name}",
            )
        return start
    point, why = truncation_point(broker, stream, view)
    if point is None:
        option = pipeline.topic_option(view.topic)
        again = f"lockstep retire {pipeline.name}{option} --partition {stream.partition} --reason ... --from"
        raise Refusal(
            f"{stream.topic_partition}: the point of the truncation is not proved: {why}. It lies in "
            f"[{bounds.log_start}, {most}]: log-start reads again what is still there, an offset is yours to know",
            next_command=f"{again} log-start, or {again} OFFSET",
        )
    return point
