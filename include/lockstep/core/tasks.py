"""Computes how many tasks a read is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OFFSETS_PER_TASK = 10_000
A_COMMIT = 1_000  # offsets: a range that is committed by itself takes longer by about so many


def tasks_for(spans: Sequence[int], slots: Callable[[], int]) -> int:
    """Returns as many tasks as the offsets justify: at least one, and never more than ranges or slots.

    Asks for slots only if there is work to share, because counting them on a server takes a job.
    """
    warranted = min(len(spans), -(-sum(spans) // OFFSETS_PER_TASK))
    return min(warranted, slots()) if warranted > 1 else 1
