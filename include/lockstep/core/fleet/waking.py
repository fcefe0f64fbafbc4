"""Decides if a run is to be woken. It decides no offsets: a wake-up that is lost or doubled costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockstep.core.offsets import TopicPartition

WAKE_AGAIN_SECONDS = 60.0  # between two wake-ups of a pipeline that shows no progress


@dataclass(frozen=True, slots=True)
class WakingFacts:
    """The facts of one look: the stable end of each partition, and the positions that the pipeline has shown."""

    ends: Mapping[TopicPartition, int]
    positions: Mapping[TopicPartition, int]

    @property
    def waiting(self) -> int:
        """Returns how many offsets wait. A partition without a position waits from its first offset on."""
        return sum(max(0, end - self.positions.get(where, 0)) for where, end in self.ends.items())


def is_to_wake(now: WakingFacts, woken: WakingFacts | None, seconds: float) -> bool:
    """Returns True if something waits that the last wake-up, so many seconds ago, has not been for.

    Runs pile up in Airflow. So a pipeline that has not moved since is woken seldom, and only for new records.
    """
    if not now.waiting or now == woken:
        return False
    return woken is None or now.positions != woken.positions or seconds >= WAKE_AGAIN_SECONDS
