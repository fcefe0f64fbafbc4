"""Works through names one by one, and leaves out those whose work is refused."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lockstep.adapters.postgres_errors import StatementRefused, server_refusals
from lockstep.core.errors import Refusal, Unreachable, WrongVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


@contextmanager
def left_out(what: str, left: list[str]) -> Iterator[None]:
    """Adds a line to `left` if the block is refused, by Lockstep or by the database. The others go on.

    A ledger of another version, and a system that is away, are no matter of one name.
    """
    try:
        with server_refusals():
            yield
    except (Unreachable, WrongVersion):
        raise
    except Refusal as refusal:
        left.append(f"{what}: {refusal.message}")
    except StatementRefused as refused:
        left.append(f"{what}: {refused.logged}")


def done_or_left(names: Iterable[str], what: str, work: Callable[[str], int]) -> tuple[int, list[str]]:
    """Adds up what `work` does for each name. Returns the sum, and a line for each name whose work was refused."""
    done = 0
    left: list[str] = []
    for name in names:
        with left_out(f"{what} of {name}", left):
            done += work(name)
    return done, left
