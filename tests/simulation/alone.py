"""Runs a storm in a new process, which is small: it forks in half the time that a test session's process takes."""

from __future__ import annotations

import multiprocessing
import traceback
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lockstep.adapters import postgres

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

Told = TypeVar("Told")
IDLE_SECONDS = 0.7  # soon ends the session of a stopped process that holds locks: all others wait for it


def alone(act: Callable[..., Told], *arguments: Any, **named: Any) -> Told:
    """Returns the result of the act, which a module must define. Fails with its stack if it fails."""
    context = multiprocessing.get_context("spawn")
    answer, say = context.Pipe(duplex=False)
    process = context.Process(target=_say, args=(say, partial(act, *arguments, **named)))
    process.start()
    say.close()
    try:
        stack, told = answer.recv()
    finally:
        process.kill()
        process.join()
    assert stack is None, stack
    return told


def _say(say: Connection, act: Callable[[], Any]) -> None:
    postgres.IDLE_SECONDS = IDLE_SECONDS
    try:
        said = (None, act())
    except BaseException:  # noqa: BLE001 - the test that waits tells it
        said = (traceback.format_exc(), None)  # type: ignore[assignment]
    say.send(said)
