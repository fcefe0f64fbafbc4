"""Maps the end of every command to an exit code, which tells a script what to do next."""

from __future__ import annotations

from enum import IntEnum

from lockstep.core.errors import BadData, LockTimeout, NeedsDecision, Refusal, Unreachable


class Exit(IntEnum):
    """The exit codes of the command line. docs/command-line.md says what to do on each."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    AWAY = 3
    DATA = 4
    BLOCKED = 5
    UNEXPECTED = 70  # EX_SOFTWARE of sysexits.h
    INTERRUPTED = 130  # 128 and the number of SIGINT, as shells have it


def exit_of(refusal: Refusal) -> Exit:
    """Returns the exit code of a command that was refused like this."""
    match refusal:
        case Unreachable() | LockTimeout():
            return Exit.AWAY
        case BadData():
            return Exit.DATA
        case NeedsDecision():
            return Exit.BLOCKED
        case _:
            return Exit.REFUSED
