"""Measures CPU time and memory of a contender's processes and of Postgres, without the broker's."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterable

SECONDS_BETWEEN_LOOKS = 0.2
MEBIBYTE = 1 << 20


@dataclass(slots=True)
class Meter:
    """A measurement that begins and ends with the block. `cpu` is in seconds, `peak` in MiB.

    With `by_pss` a page that several processes share counts once, and Postgres does not count. Reading that takes the
    kernel some milliseconds for each GiB, so it is not for runs whose time counts.
    """

    roots: tuple[int, ...]
    postmaster: int
    by_pss: bool = False
    cpu: float = 0.0
    peak: float = 0.0
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.cpu = -self._used()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread:
            self._thread.join()
        self.cpu += self._used()

    def _look(self) -> None:
        while True:
            self.peak = max(self.peak, self._held())
            if self._over.wait(SECONDS_BETWEEN_LOOKS):
                return

    def _used(self) -> float:
        """Returns the CPU time, with that of ended children as their parents know it.

        So it reads children first.
        """
        used = 0.0
        for each in reversed(self._family()):
            with suppress(psutil.NoSuchProcess):
                used += sum(each.cpu_times()[:4])
        return used

    def _held(self) -> float:
        """Returns the memory that each process has for itself, because Postgres shares its buffers among all."""
        if self.by_pss:
            return pss(family(self.roots)) / MEBIBYTE
        held = 0
        for each in self._family():
            with suppress(psutil.NoSuchProcess):
                memory = each.memory_info()
                held += memory.rss - (memory.shared if each.name() == "postgres" else 0)
        return held / MEBIBYTE

    def _family(self) -> list[psutil.Process]:
        return family((*self.roots, self.postmaster))


def family(roots: Iterable[int]) -> list[psutil.Process]:
    """Returns these processes with all that descend from them."""
    found: list[psutil.Process] = []
    for root in roots:
        with suppress(psutil.NoSuchProcess):
            first = psutil.Process(root)
            found += [first, *first.children(recursive=True)]
    return found


def pss(processes: Iterable[psutil.Process]) -> int:
    """Returns the bytes of these processes by proportional set size, from /proc/*/smaps_rollup."""
    held = 0
    for each in processes:
        with suppress(ProcessLookupError, FileNotFoundError):
            lines = Path(f"/proc/{each.pid}/smaps_rollup").read_text().splitlines()
            held += sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return held
