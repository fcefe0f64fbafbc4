"""Checks that the log is the planned one, and that its start has not passed the batch's (T7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.kafka.epochs import epoch_of
from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import Refusal
from lockstep.ledger.batch import attempts
from lockstep.ledger.batch.archived import with_archive
from lockstep.ledger.batch.one_log import planned_epochs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.offsets import LogView, StreamRange
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.steps.context import Context


def log_starts(
    at: Context, pipeline: Pipeline, batch_id: int, before: Mapping[int, int] | None = None
) -> dict[int, int]:
    """Returns every stream's log start from the broker. Callers ask right before and right after the read.

    After the read, they give the log starts from `before` it. Raises `Refusal`, naming partition and offsets, when a
    range cannot be (or could not have been) read whole. The archive may hold what the log has no more. A range that began
    in the log was read there, and must still be in it.
    """
    with transaction(at.conn, READER) as cur:
        ranges, planned_on = attempts.ranges_and_logs(cur, batch_id)
        epochs = planned_epochs(cur, batch_id)
    if not ranges:
        return {}  # all of it is committed
    view = whole = view_of_topics(at.broker, planned_on)
    if pipeline.archive is not None:
        with transaction(at.conn, READER) as cur:
            whole = with_archive(cur, pipeline, view)
    starts = {}
    for item in ranges:
        seen = view if began_in_log(item, before or {}) else whole
        log = planned_on[item.offsets.topic_partition.topic]
        starts[item.stream_id] = require_same_log(seen, log, item, batch_id, pipeline.name)
    for item in ranges:
        require_whole(at.broker, view, item, epochs.get(item.stream_id), batch_id, pipeline.name)
    return starts


def began_in_log(item: StreamRange, before: Mapping[int, int]) -> bool:
    """Returns True if a range began at or above the log start that was seen before the read, by stream."""
    return before.get(item.stream_id, item.offsets.until_offset) <= item.offsets.from_offset


def view_of_topics(broker: Broker, topics: Iterable[str]) -> LogView:
    """Reads these topics, those of several that are not there left out. Raises `Refusal` if the only one is not there."""
    names = list(topics)
    return broker.view(names[0]) if len(names) == 1 else broker.topic_views(names)


def require_still_same(broker: Broker, view: LogView, topics: Iterable[str], again: str) -> None:
    """Requires, behind a read by the topics' names, that they still are the topics of the view. Else it read other records.

    `again` is the command that reads once more.
    """
    names = sorted(set(topics))
    if not names:
        return
    now = view_of_topics(broker, names)
    if changed := next((name for name in names if now.log_of(name) != view.log_of(name)), None):
        raise Refusal(f"topic {changed} was made anew while it was read, so nothing is known", next_command=again)


def require_whole(
    broker: Broker, view: LogView, item: StreamRange, epoch: int | None, batch_id: int, pipeline: str
) -> None:
    """Requires, under a new leader, that the range's last record is still one of the planned log.

    A range that ends with a marker or a compacted record proves nothing. It is planned and read again. Checks nothing
    without an `epoch` that the batch was planned under.
    """
    topic, partition = item.offsets.topic_partition.topic, item.offsets.topic_partition.partition
    now = view[item.offsets.topic_partition].leader_epoch
    if epoch is None or now is None or now <= epoch:
        return
    last, until = item.offsets.until_offset - 1, item.offsets.until_offset
    if last < view[item.offsets.topic_partition].log_start:  # files hold it, and no leader changes them
        return
    record = next(broker.records(topic, partition, last, until, committed=False), None)
    written = None if record is None else epoch_of(record.leader_epoch())
    if written is None or written > epoch:
        raise Refusal(
            f"{item.offsets}: the partition's leader epoch went from {epoch} to {now} since batch {batch_id} was planned, and "
            "the log may have been truncated",
            next_command=f"lockstep plan {pipeline}",
        )


def require_same_log(
    view: LogView, planned_on: set[tuple[str, str]], item: StreamRange, batch_id: int, pipeline: str
) -> int:
    """Returns the log start of one range's partition.

    Refuses a log other than the one planned (cluster id, topic id). Also refuses one that has lost offsets of the range,
    unless files hold them.
    """
    bounds, now = view.get(item.offsets.topic_partition), view.log_of(item.offsets.topic_partition.topic)
    if now is None or planned_on != {(now[0], now[2])} or bounds is None:
        raise Refusal(
            f"{item.offsets}: the log is not the one that batch {batch_id} was planned on",
            next_command=f"lockstep plan {pipeline}",
        )
    if not bounds.holds(item.offsets.from_offset, item.offsets.until_offset):
        raise Refusal(
            f"{item.offsets}: the log now starts at {bounds.log_start}: records of batch {batch_id} were deleted",
            next_command=f"lockstep plan {pipeline}",
        )
    return bounds.log_start
