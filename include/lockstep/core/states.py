"""Names the states and kinds that the ledger stores as text. Code compares these names, and never the text."""

from __future__ import annotations

from enum import StrEnum


class Lane(StrEnum):
    """The reason why a batch exists: `live` moves the position, `fill` and `replay` work behind it."""

    LIVE = "live"
    FILL = "fill"
    REPLAY = "replay"


class BatchState(StrEnum):
    """The state of a batch. It leaves `planned` once."""

    PLANNED = "planned"
    COMMITTED = "committed"
    ABANDONED = "abandoned"


class AttemptState(StrEnum):
    """The state of one try at a batch. The first three are open, and the others end it."""

    OPEN = "open"
    STAGED = "staged"
    VALIDATED = "validated"
    COMMITTED = "committed"
    FAILED = "failed"
    SUPERSEDED = "superseded"
    ABANDONED = "abandoned"


class CommitUnit(StrEnum):
    """The part of a batch that one commit of an attempt moves: all of it, or one stream."""

    BATCH = "batch"
    STREAM = "stream"


class CoverageKind(StrEnum):
    """The owner of covered offsets: a batch, an accepted loss, or a skip."""

    BATCH = "batch"
    LOSS = "loss"
    SKIPPED = "skipped"


class Expected(StrEnum):
    """The content of offsets that a claim expects to find: nothing, a skip, or one batch's segment (T4)."""

    NOTHING = "nothing"
    SKIPPED = "skipped"
    BATCH = "batch"


class RangeEnd(StrEnum):
    """The end of a range in the task that commits it. `found` was committed before, `moved` has lost its coverage.

    `left` and `end` are of the task itself. It left the rest to Spark, or came to the end of its input.
    """

    COMMITTED = "committed"
    FOUND = "found"
    REFUSED = "refused"
    MOVED = "moved"
    LEFT = "left"
    END = "end"


class WorkState(StrEnum):
    """The answer of the Spark half of a history run. `waits` is for another worker on the same offsets."""

    DONE = "done"
    WAITS = "waits"
    BLOCKED = "blocked"
    REFUSED = "refused"


class WindowState(StrEnum):
    """The state of a window by the watermark: not passed, passed, shown, and past its lateness."""

    OPEN = "open"
    DUE = "due"
    EMITTED = "emitted"
    CLOSED = "closed"
