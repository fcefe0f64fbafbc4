"""Provides a clock that a test may step while programs run.

libfaketime reads it from a file at each look.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PLACES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/local/lib/faketime/libfaketimeMT.so.1")


def library() -> Path | None:
    """Returns the path of libfaketime, if it is installed."""
    return next((path for place in PLACES for path in sorted(Path("/").glob(place.removeprefix("/")))), None)


WHY_NOT = None if library() else "needs libfaketime: apt-get install libfaketime"


class Clock:
    """A clock that runs as the machine's does, so many seconds beside it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.touch()
        self.step(0)
        file.chmod(0o644)

    def step(self, seconds: int) -> None:
        """Sets the clock so far beside the machine's. Running programs see it at the next look."""
        self.file.write_text(f"{seconds:+d}\n")

    @contextmanager
    def of_programs(self) -> Iterator[None]:
        """Gives this clock to every program that is started within the block. Waits and timeouts are not touched."""
        wanted = {
            "LD_PRELOAD": str(library()),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DISABLE_SHM": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        assert not wanted.keys() & os.environ.keys()
        os.environ.update(wanted)
        try:
            yield
        finally:
            for name in wanted:
                del os.environ[name]
