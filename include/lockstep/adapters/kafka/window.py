"""Shows a topic as if it held no more than given ranges. Readers read them from the real broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.kafka.broker import Broker
from lockstep.core.offsets import Bounds, TopicView

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockstep.core.offsets import StreamRange

WINDOW = "window"  # the ids of cluster and topic


class WindowBroker(Broker):
    """The broker of a topic whose partitions begin and end with these ranges."""

    def __init__(self, real: Broker, ranges: Iterable[StreamRange]) -> None:
        super().__init__(real.bootstrap, real.options)
        self._ranges = [item.offsets for item in ranges]

    def view(self, topic: str) -> TopicView:
        """Returns the ranges as the bounds of the log."""
        bounds = {
            its.topic_partition.partition: Bounds(its.from_offset, its.until_offset)
            for its in self._ranges
            if its.topic_partition.topic == topic
        }
        return TopicView(WINDOW, topic, WINDOW, bounds)
