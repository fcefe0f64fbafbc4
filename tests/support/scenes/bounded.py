"""Calls a function in a process of its own that ends when the call takes too much."""

from __future__ import annotations

import multiprocessing
import resource
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

CPU_SECONDS = 10


def within(ask: Callable[[], Any], *, cpu_seconds: int = CPU_SECONDS) -> Any:
    """Returns what the call returns. Fails if it takes more processor time, also within one C function."""
    context = multiprocessing.get_context("fork")
    ours, its = context.Pipe(duplex=False)

    def answer() -> None:
        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])  # a fork begins at nothing
        resource.setrlimit(resource.RLIMIT_CPU, (int(used) + cpu_seconds,) * 2)
        its.send(ask())

    process = context.Process(target=answer, daemon=True)
    process.start()
    its.close()
    try:
        return ours.recv()
    except EOFError:
        raise AssertionError(f"no answer within {cpu_seconds} seconds of processor time") from None
    finally:
        process.join()
        ours.close()
