"""Defines every error that a user can meet: one line with the facts and the next command."""

from __future__ import annotations

import errno

# Names in the errors of an outside system that was away or refused access.
AWAY = (
    "AuthenticationException",
    "AuthorizationException",
    "ConnectionError",
    "Disconnect",
    "Disk quota exceeded",
    "INVALID_HANDLE.SESSION",  # a Spark server that was started anew
    "No space left on device",  # of the machine that reads. A larger disk reads the same records.
    "SSLHandshakeException",
    "StatusCode.UNAVAILABLE",
    "TimeoutException",
)

MIGRATE = "lockstep migrate"
QUOTED = 100  # letters that a message repeats of what it was given


def quoted(text: str) -> str:
    """Returns a text as a message repeats it: in quotes, and shortened if it is long."""
    return repr(text if len(text) <= QUOTED else f"{text[:QUOTED]}…")


class Refusal(Exception):  # noqa: N818 - it is an answer, not a fault
    """An answer of no: `str()` is one line with the facts and, if there is one, the next command."""

    def __init__(self, message: str, *, next_command: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.next_command = next_command

    def __str__(self) -> str:
        return f"{self.message}  Next: {self.next_command}" if self.next_command else self.message


class BadDefinition(Refusal):
    """The refusal of a pipeline's definition at birth. The message names the file or field."""


class BadData(Refusal):
    """The failure of an attempt by its data, or by the code that read it.

    Three of these under the same code block a batch (T8). `values` holds details about the records themselves. The
    ledger keeps them, and no log has them.
    """

    def __init__(self, message: str, *, next_command: str | None = None, values: str = "") -> None:
        super().__init__(message, next_command=next_command)
        self.values = values

    @property
    def kept(self) -> str:
        """Returns the text that the ledger keeps. Its first line may be printed. The values follow."""
        return f"{self}\n{self.values}" if self.values else str(self)


def printable(kept: str) -> str:
    """Returns the line of a kept error that may be printed: it holds no value of a record."""
    return kept.partition("\n")[0]


class ReaderDied(BadData):
    """The death of a task's process while it read.

    The cause may be a record, the machine, or a lack of memory. `is_busy` says that the process made no progress until its
    deadline ended it.
    """

    def __init__(self, message: str, *, next_command: str | None = None, is_busy: bool = False) -> None:
        super().__init__(message, next_command=next_command)
        self.is_busy = is_busy


class RowsRefused(BadData):
    """The refusal of a batch's rows by the `table` of a target.

    A constraint, an index, a type or a trigger refuses them.
    """

    def __init__(self, message: str, *, next_command: str | None = None, values: str = "", table: str = "") -> None:
        super().__init__(message, next_command=next_command, values=values)
        self.table = table


class UnreadableHeaders(BadData):
    """A record whose header has a name that is no UTF-8. Kafka's client of Python cannot read its headers."""


class Superseded(Refusal):
    """The end of an attempt whose batch a newer attempt owns. It does no harm and needs no retry (T2)."""


class LakeMoved(Refusal):
    """The pointer of a lake table that another writer has moved.

    Nothing was written. The move is prepared once more.
    """


class DefinitionChanged(Refusal):
    """The end of an attempt because a deployment came between two of its steps.

    No retry of this step helps. The next run does its batch.
    """


class WrongVersion(Refusal):
    """A ledger whose version is not this code's. Nothing was written, and one of the two must be updated."""


class PositionMoved(Refusal):
    """A stream's position that is not where the batch begins. Another attempt has committed those offsets."""


class CoverageMoved(Refusal):
    """Offsets of a batch whose coverage is not what the plan expected. It is an alarm, and nothing was written."""


class LockTimeout(Refusal):
    """Another transaction was in the way, by a lock or a deadlock. Nothing was done, and a retry is right."""


class NeedsDecision(Refusal):
    """A pipeline that is blocked until a person decides. No retry helps."""


class Unreachable(Refusal):
    """An outside system that did not answer. This says nothing about data or code."""


class SlowSink(Unreachable):
    """A transaction that a topic did not take in time. A smaller one may pass."""


def said_in(line: str) -> Refusal | None:
    """Rebuilds one of our own errors from its line in another process's traceback. Returns None for any other line."""
    head, colon, rest = line.partition(": ")
    data = (BadData, BadDefinition, DefinitionChanged, PositionMoved, ReaderDied, RowsRefused)
    kinds = (*data, Refusal, Superseded, Unreachable, WrongVersion)
    kind = {f"{__name__}.{each.__name__}": each for each in kinds}.get(head)
    if kind is None or not colon:
        return None
    message, _, next_command = rest.partition("  Next: ")
    return kind(message, next_command=next_command or None)


def is_away(line: str) -> bool:
    """Returns True if a foreign error says that an outside system was away. No data or code is at fault then."""
    return any(kind in line for kind in AWAY)


def no_room(error: BaseException) -> Unreachable | None:
    """Returns the error for a full disk of this machine, or None if the error is about something else."""
    if not isinstance(error, OSError) or error.errno not in {errno.ENOSPC, errno.EDQUOT}:
        return None
    place = f" for {error.filename}" if error.filename else ""
    return Unreachable(f"this machine has no room{place}: {error.strerror}", next_command="make room on its disk")


def spark_lost(where: str, error: Exception) -> Unreachable | None:
    """Returns the error for a Spark that was away, or None if the error is about something else."""
    said = str(error)
    return Unreachable(f"{where}: Spark was lost: {' '.join(said.split())[:200]}") if is_away(said) else None
