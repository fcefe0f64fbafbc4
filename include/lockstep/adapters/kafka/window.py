"""Shows topics as if they held no more than given ranges. Readers read them from the real broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.kafka.broker import Broker
from lockstep.core.offsets import Bounds, TopicView, TopicViews

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockstep.core.offsets import StreamRange

WINDOW = "window"  # the id of the cluster, and the beginning of each topic's


class WindowBroker(Broker):
    """The broker of topics whose partitions begin and end with these ranges. A topic without a range is empty."""

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
        return TopicView(WINDOW, topic, window_id(topic), bounds)

    def topic_names(self) -> list[str]:
        """Returns the topics of the ranges."""
        return sorted({its.topic_partition.topic for its in self._ranges})

    def topic_views(self, names: Iterable[str], *, only_readable: bool = False) -> TopicViews:  # noqa: ARG002 - all are
        """Returns the ranges of these topics as the bounds of their logs."""
        return TopicViews(WINDOW, tuple(map(self.view, sorted(names))))


def window_id(topic: str) -> str:
    """Returns the topic id that a broker of ranges shows."""
    return f"{WINDOW} {topic}"
