"""How many tasks a read is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

OFFSETS_PER_TASK = 10_000


def tasks_for(spans: Sequence[int], cores: int) -> int:
    """As many tasks as the offsets warrant, never more than ranges or cores, and at least one."""
    return max(1, min(len(spans), cores, -(-sum(spans) // OFFSETS_PER_TASK)))
