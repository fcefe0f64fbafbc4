"""Every error a user can meet: one line with the facts and the next command."""

from __future__ import annotations

# What an error names when an outside system was away or did not let us in.
AWAY = (
    "AuthenticationException",
    "AuthorizationException",
    "ConnectionError",
    "Disconnect",
    "INVALID_HANDLE.SESSION",  # a Spark server that was started anew
    "KAFKA_DATA_LOSS",
    "OffsetOutOfRange",
    "SSLHandshakeException",
    "StatusCode.UNAVAILABLE",
    "TimeoutException",
)

QUOTED = 100  # letters that a message repeats of what it was given


def quoted(text: str) -> str:
    """Returns a text as a message repeats it: in quotes, and not all of a long one."""
    return repr(text if len(text) <= QUOTED else f"{text[:QUOTED]}…")


class Refusal(Exception):  # noqa: N818 - it is an answer, not a fault
    """Lockstep says no: `str()` is one line with the facts and, where there is one, the next command."""

    def __init__(self, message: str, *, next_command: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.next_command = next_command

    def __str__(self) -> str:
        return f"{self.message}  Next: {self.next_command}" if self.next_command else self.message


class BadDefinition(Refusal):
    """A pipeline's definition is refused at birth; the message names the file or field."""


class BadData(Refusal):
    """The data or the code that read it made an attempt fail: three of these under the same code block a batch (T8)."""


class ReaderDied(BadData):
    """The process of a task ended while it read: a record that ends it, a machine that did, or no memory left."""


class Superseded(Refusal):
    """A newer attempt owns the batch; this one ends without harm and without retry (T2)."""


class DefinitionChanged(Refusal):
    """A deployment came between two steps: the attempt ends, no retry of this step helps, and the next run does its batch."""


class WrongVersion(Refusal):
    """The ledger's version is not this code's: nothing was written, and one of the two must be brought up to date."""


class PositionMoved(Refusal):
    """A stream's position is not where the batch begins: somebody else has committed those offsets."""


class CoverageMoved(Refusal):
    """Offsets that a batch is to cover are covered otherwise than it was planned: an alarm, and nothing was written."""


class Unreachable(Refusal):
    """An outside system did not answer; nothing is known to be wrong with data or code."""


def said_in(line: str) -> Refusal | None:
    """One of our own errors again, from the line by which a traceback in another process names it."""
    head, colon, rest = line.partition(": ")
    data = (BadData, BadDefinition, DefinitionChanged, PositionMoved, ReaderDied)
    kinds = (*data, Refusal, Superseded, Unreachable, WrongVersion)
    kind = {f"{__name__}.{each.__name__}": each for each in kinds}.get(head)
    if kind is None or not colon:
        return None
    message, _, next_command = rest.partition("  Next: ")
    return kind(message, next_command=next_command or None)


def is_away(line: str) -> bool:
    """Whether a foreign error speaks of an outside system that was away: no fault of data or code."""
    return any(kind in line for kind in AWAY)


def spark_lost(where: str, error: Exception) -> Unreachable | None:
    """What is said when Spark itself was away; None where the error is about something else."""
    said = str(error)
    return Unreachable(f"{where}: Spark was lost: {' '.join(said.split())[:200]}") if is_away(said) else None
