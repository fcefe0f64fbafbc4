"""Refuses to start a server or a JVM in a test without the marker `server`."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURES = frozenset({"servers", "pair"})  # each fixture with a server or a database asks for one of these
PROGRAMS = frozenset({"airflow", "initdb", "java", "postgres", "prometheus", "spark-submit"})
ASKED = frozenset({"-version", "--version"})  # a program that tells its version serves nobody
_refuses: list[bool] = []


class StartedError(AssertionError):
    """A test without the marker `server` started one."""


def _started(event: str, given: tuple) -> None:
    if event != "subprocess.Popen" or not _refuses or not _refuses[-1]:
        return
    program, arguments, *_ = given
    words = [str(program), *map(str, arguments if isinstance(arguments, list | tuple) else [arguments])]
    if ASKED & set(words):
        return
    if found := PROGRAMS & {Path(word).name for word in words[:3]}:
        raise StartedError(f"{', '.join(found)} was started: mark this test with pytest.mark.server")


sys.addaudithook(_started)  # for the life of the process: nothing can take it back


@contextmanager
def refused(*, unless: bool = False) -> Iterator[None]:
    """Refuses servers within the block, unless they are allowed there."""
    _refuses.append(not unless)
    try:
        yield
    finally:
        _refuses.pop()
