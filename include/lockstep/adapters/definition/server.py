"""Runs in the process that evaluates definitions: forks once for each, and writes one line of JSON for each.

It imports Lockstep once, and runs no author's code itself. A definition that hangs, dies, or says too much is ended and
described as broken, and the next one follows.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.adapters.definition.author import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_ANSWER_BYTES = 4 * 2**20  # of one document
SET_DUMPABLE, SET_NO_NEW_PRIVS, SET_PARENT_DEATH_SIGNAL = 4, 38, 1
CAPABILITIES_OF_64_BITS = 0x20080522


def answer_request() -> None:
    """Answers the request on standard input.

    It holds the seconds for each, the names of withheld variables, and pairs of a name and its file.
    """
    seconds, withheld, asked = json.load(sys.stdin)
    hide_process()
    for name, source in asked:
        sys.stdout.buffer.write(_answer(name, Path(source), seconds, withheld) + b"\n")
        sys.stdout.buffer.flush()


def hide_process() -> None:
    """Keeps other processes of the same user from this one's environment, memory and descriptors, where Linux can.

    They are read by way of /proc, or with a debugger. It stays so for the life of the process.
    """
    _prctl(SET_DUMPABLE, 0)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def drop_capabilities() -> None:
    """Gives up what root may do beyond other users: it could read every process's environment."""
    _prctl(SET_NO_NEW_PRIVS, 1)  # or a program that it starts would have them again
    if sys.platform == "linux":
        head, none = (ctypes.c_uint32 * 2)(CAPABILITIES_OF_64_BITS, 0), (ctypes.c_uint32 * 6)()
        ctypes.CDLL(None, use_errno=True).capset(head, none)


def _answer(name: str, source: Path, seconds: float, withheld: Sequence[str]) -> bytes:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _run_author(name, source, withheld, writing)
        finally:
            os._exit(0)
    os.close(writing)
    try:
        line, why = _line(reading, seconds)
    finally:
        os.close(reading)
        for end in (os.killpg, os.kill):
            with suppress(ProcessLookupError, PermissionError):
                end(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if line is not None:
        return line
    died = f"its process ended by signal {-status}" if status < 0 else f"its process ended with exit code {status}"
    return json.dumps({"broken": [str(source), None, why or f"{died}, without a definition"]}).encode()


def _run_author(name: str, source: Path, withheld: Sequence[str], writing: int) -> None:
    os.setsid()
    _prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    drop_capabilities()
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.closerange(3, writing)
    os.closerange(writing + 1, writing + 64)
    sys.dont_write_bytecode = True  # of neighbours: it could be older than an edit of the same second
    answer: dict[str, Any] = describe(name, source, withheld)
    with os.fdopen(writing, "wb") as out:
        out.write(json.dumps(answer).encode() + b"\n")


def _line(reading: int, seconds: float) -> tuple[bytes | None, str | None]:
    """Returns the first line, or None and why there is none if its process did not just end."""
    found, until = b"", time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if not select.select([reading], [], [], left)[0]:
            continue
        piece = os.read(reading, 2**16)
        line, end, _ = (found + piece).partition(b"\n")
        if end:
            return line, None
        if not piece:
            return None, None
        found += piece
        if len(found) > MOST_ANSWER_BYTES:
            return None, f"its definition is larger than {MOST_ANSWER_BYTES} bytes as JSON"
    return None, f"it was not evaluated within {seconds:.0f} s"
