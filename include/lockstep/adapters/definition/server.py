"""Runs in the process that evaluates definitions. Each is a line of JSON, a fork, and a line of JSON that answers.

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
    Request = dict[str, Any]

SERVER_READY = b"ready"
MOST_ANSWER_BYTES = 4 * 2**20  # of one document
SET_DUMPABLE, SET_NO_NEW_PRIVS, SET_PARENT_DEATH_SIGNAL = 4, 38, 1
CAPABILITIES_OF_64_BITS = 0x20080522
CREATE_RULESET, RESTRICT_SELF, ASKS_VERSION = 444, 446, 1  # Landlock's calls have the same numbers on each processor
MAKE_BLOCK_DEVICES, SCOPED_SIGNALS, KNOWS_SCOPES = 1 << 11, 1 << 1, 6


def answer_requests() -> None:
    """Answers each line of standard input with a line of standard output, until its end. Says first that it is ready.

    A request holds the definition's name and file, and the seconds that it may take. Its process is given the environment,
    the names of withheld variables, the import path and the working folder.
    """
    hide_process()
    out = sys.stdout.buffer
    out.write(SERVER_READY + b"\n")
    out.flush()
    while request := sys.stdin.buffer.readline():
        out.write(_answer(json.loads(request)) + b"\n")
        out.flush()


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


def _restrict_to_own_processes() -> None:
    """Keeps this process from the environment, memory and descriptors of all others, and from sending them signals.

    Needs Landlock: Linux 5.13, and 6.12 for signals. Without it, processes of the same user stay readable.
    """
    if sys.platform != "linux":
        return
    call = ctypes.CDLL(None, use_errno=True).syscall
    version = call(CREATE_RULESET, None, ctypes.c_size_t(0), ASKS_VERSION)
    if version < 1:
        return
    # Some right must be given up. Nothing needs this one.
    rules = (ctypes.c_uint64 * 3)(MAKE_BLOCK_DEVICES, 0, SCOPED_SIGNALS)
    size = ctypes.c_size_t(24 if version >= KNOWS_SCOPES else 8)
    descriptor = call(CREATE_RULESET, rules, size, 0)
    call(RESTRICT_SELF, descriptor, 0)
    os.close(descriptor)


def _answer(request: Request) -> bytes:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _run_author(request, writing)
        finally:
            os._exit(0)
    os.close(writing)
    try:
        line, why = _line(reading, request["seconds"])
    finally:
        os.close(reading)
        for end in (os.killpg, os.kill):
            with suppress(ProcessLookupError, PermissionError):
                end(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if line is not None:
        return line
    died = f"its process ended by signal {-status}" if status < 0 else f"its process ended with exit code {status}"
    return json.dumps({"broken": [request["source"], None, why or f"{died}, without a definition"]}).encode()


def _run_author(request: Request, writing: int) -> None:
    os.setsid()
    _prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    drop_capabilities()
    _restrict_to_own_processes()
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.closerange(3, writing)
    os.closerange(writing + 1, writing + 64)
    sys.dont_write_bytecode = True  # of neighbours: it could be older than an edit of the same second
    sys.path[:] = request["path"]
    os.environ.clear()
    os.environ.update(request["environ"])
    time.tzset()
    os.chdir(request["folder"])
    answer: dict[str, Any] = describe(request["name"], Path(request["source"]), request["withheld"])
    with os.fdopen(writing, "wb") as out:
        out.write(json.dumps(answer).encode() + b"\n")


def _line(reading: int, seconds: float) -> tuple[bytes | None, str | None]:
    """Returns the first line, or None and why there is none if its process did not just end.

    Ends this process if the one that asks is gone. That is so if standard input ends, or is written to too early.
    """
    found, until = b"", time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        ready = select.select([reading, sys.stdin.fileno()], [], [], left)[0]
        if sys.stdin.fileno() in ready:
            sys.exit("the process that asked is gone")
        if not ready:
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
