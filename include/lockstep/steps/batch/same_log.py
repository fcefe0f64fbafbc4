"""Checks that the log is the planned one, and that its start has not passed the batch's (T7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.kafka.epochs import epoch_of
from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import Refusal
from lockstep.ledger.batch import attempts
from lockstep.ledger.batch.one_log import planned_epochs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.offsets import LogView, StreamRange
    from lockstep.steps.context import Context


def log_starts(at: Context, pipeline: str, batch_id: int) -> dict[int, int]:
    """Returns every stream's log start from the broker. Callers ask right before and right after the read.

    Raises `Refusal`, naming partition and offsets, when a range cannot be (or could not have been) read whole.
    """
    with transaction(at.conn, READER) as cur:
        ranges = attempts.ranges_to_read(cur, batch_id)
        planned_on = attempts.logs(cur, batch_id)
        epochs = planned_epochs(cur, batch_id)
    if not ranges:
        return {}  # all of it is committed
    view = view_of_topics(at.broker, planned_on)
    starts = {
        item.stream_id: require_same_log(view, planned_on[item.offsets.topic_partition.topic], item, batch_id, pipeline)
        for item in ranges
    }
    for item in ranges:
        require_whole(at.broker, view, item, epochs.get(item.stream_id), batch_id, pipeline)
    return starts


def view_of_topics(broker: Broker, topics: Iterable[str]) -> LogView:
    """Reads these topics, those of several that are not there left out. Raises `Refusal` if the only one is not there."""
    names = list(topics)
    return broker.view(names[0]) if len(names) == 1 else broker.topic_views(names)


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

    Refuses a log other than the one planned (cluster id, topic id), and one that has lost the range's beginning.
    """
    bounds, now = view.get(item.offsets.topic_partition), view.log_of(item.offsets.topic_partition.topic)
    if now is None or planned_on != {(now[0], now[2])} or bounds is None:
        raise Refusal(
            f"{item.offsets}: the log is not the one that batch {batch_id} was planned on",
            next_command=f"lockstep plan {pipeline}",
        )
    if bounds.log_start > item.offsets.from_offset:
        raise Refusal(
            f"{item.offsets}: the log now starts at {bounds.log_start}: records of batch {batch_id} were deleted",
            next_command=f"lockstep plan {pipeline}",
        )
    return bounds.log_start
