"""Works through names one by one, and leaves out those that somebody else holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.errors import LockTimeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def done_unless_busy(names: Iterable[str], what: str, work: Callable[[str], int]) -> tuple[int, list[str]]:
    """Adds up what `work` does for each name. Returns the sum, and a line for each name whose lock was held too long."""
    done, left = 0, []
    for name in names:
        try:
            done += work(name)
        except LockTimeout as refusal:
            left.append(f"{what} of {name}: {refusal.message}")
    return done, left
