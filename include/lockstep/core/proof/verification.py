"""Defines the checks of `verify`: what each compared, its first errors, and the command that puts them right."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

EXACT_KEYS = frozenset({"string", "int", "bigint", "smallint"})  # types whose text is the same in a record and in a row
ROWS_COUNTED = "rows are all there"
NO_COMMAND = ""  # of a share: no command compares more
ROWS_BY_SHA = "rows are those of their SHA-256"
MOST_NAMED_ERRORS = 10  # errors that are named. The others are only counted.

Proves = Literal["coordinates", "contents", "nothing"]
Against = Literal["ledger", "log"]
Unit = Literal["rows", "segments"]


@dataclass(frozen=True, slots=True)
class Share:
    """The number of a target's rows, or of the segments that they came in, that a check has compared.

    `batch` is the oldest batch that another definition decoded, if that is why some were not compared. `next_command` is
    the command that compares them, if it is neither a replay of that batch nor an archive.
    """

    compared: int
    of: int
    unit: Unit = "rows"
    batch: int | None = None
    next_command: str | None = None

    @property
    def is_whole(self) -> bool:
        """Returns True if nothing was left out."""
        return self.compared >= self.of


@dataclass(frozen=True, slots=True)
class PromiseCheck:
    """One promise that was checked. `detail` says what was compared, or names the first offending partition and offset.

    `proves` names the side of the `target`'s rows that the check compares. `against` names the other side. `left_out`
    names the rows or records that it could not compare. A check that compared nothing proves nothing. `batches` are
    those of the first wrong rows: a replay of a batch writes its rows anew. `share` says how many of the target's rows
    were compared, where they may be fewer than all.
    """

    name: str
    ok: bool
    detail: str
    proves: Proves = "nothing"
    target: str = ""
    against: Against = "ledger"
    left_out: str = ""
    batches: tuple[int, ...] = ()
    share: Share | None = None

    @property
    def is_made(self) -> bool:
        """Returns False if there were rows to compare and none was compared."""
        return not self.ok or self.share is None or self.share.compared > 0 or self.share.of == 0

    def document(self) -> dict[str, Any]:
        """Returns the fields that every check has, for `--json`."""
        found = {each.name: getattr(self, each.name) for each in fields(PromiseCheck)}
        return found | {"share": asdict(self.share) if self.share else None}


@dataclass(frozen=True, slots=True)
class Segment:
    """One batch's range of one stream, with the counts that its committed attempt recorded.

    `sum` and `squares` are of the digest. `definition` is the hash of the code that decoded it.
    """

    batch_id: int
    from_offset: int
    until_offset: int
    delivered: int
    filtered: int
    sum: int
    squares: int
    definition: str = ""
    quarantined: int = 0


@dataclass(frozen=True, slots=True)
class BatchesSince:
    """The batches that committed at `moment` or later and own offsets today. `before` is the number of all others."""

    moment: datetime
    batches: frozenset[int]
    before: int

    @property
    def shown(self) -> str:
        """Returns the moment in UTC, to the second."""
        return f"{self.moment:%Y-%m-%dT%H:%M:%SZ}"

    @property
    def left_out(self) -> str:
        """Says what a look at these batches does not see."""
        return (
            f"rows of {self.before} batches that committed before {self.shown}, and rows at offsets that no batch owns"
        )

    def among(self, segments: Iterable[Segment]) -> list[Segment]:
        """Returns the segments of these batches, in their order."""
        return [segment for segment in segments if segment.batch_id in self.batches]

    def document(self) -> dict[str, Any]:
        """Returns the moment and both numbers of batches, for `--json`."""
        return {"moment": self.shown, "batches": len(self.batches), "before": self.before}


class Wrong:
    """The errors that one check finds. All of them are counted, the first of them are named, with their batches."""

    def __init__(self) -> None:
        self.count = 0
        self.batches: tuple[int, ...] = ()
        self._named: list[str] = []

    def add(self, what: str, count: int = 1, batch: int | None = None) -> None:
        """Counts one more error. With a `count` above one, the text describes several."""
        self.extend([what], count, [batch])

    def add_of(self, batch: int, what: str, count: int = 1) -> None:
        """Counts one more error of this batch, and names the batch before it."""
        self.add(f"batch {batch}: {what}", count, batch)

    def extend(self, named: Iterable[str], count: int, batches: Iterable[int | None] = ()) -> None:
        """Counts several more errors, of which some are named. `batches` are those that are known of their rows."""
        self.count += count
        self._named = [*self._named, *named][:MOST_NAMED_ERRORS]
        known = dict.fromkeys([*self.batches, *(batch for batch in batches if batch is not None)])
        self.batches = tuple(known)[:MOST_NAMED_ERRORS]

    def join(self, other: Wrong) -> None:
        """Adds the errors of another check."""
        self.extend(other._named, other.count, other.batches)

    def note(self, what: str) -> None:
        """Adds a note to each error that is named."""
        self._named = [f"{each} ({what})" for each in self._named]

    def check(
        self,
        name: str,
        proves: Proves = "nothing",
        target: str = "",
        against: Against = "ledger",
        *,
        told: str = "",
        left_out: str = "",
        share: Share | None = None,
    ) -> PromiseCheck:
        """Returns the check that has found these errors. `told` is its detail if there are none.

        It proves nothing if it compared none of the rows that are there.
        """
        detail = str(self) if self.count else told
        if share and share.of and not (share.compared or self.count):
            proves = "nothing"
        return PromiseCheck(name, not self.count, detail, proves, target, against, left_out, self.batches, share)

    def __str__(self) -> str:
        if self.count == 1:
            return self._named[0]
        more = f"; and {self.count - len(self._named)} more" if self.count > len(self._named) else ""
        return f"{self.count} are wrong: {'; '.join(self._named)}{more}"


def next_step(name: str, checks: Sequence[PromiseCheck], *, deep: bool) -> str | None:
    """Returns the command that puts wrong rows right, or that finds out more about them. Returns None if none does.

    It is a replay of the oldest batch with a wrong row. If a `deep` look finds only another number of keys, it counts
    them anew.
    """
    wrong = [check for check in checks if not check.ok]
    batches = {batch for check in wrong for batch in check.batches}
    if batches:
        return f"lockstep replay {name} --batch {min(batches)}"
    if wrong and not deep:
        return f"lockstep verify {name} --deep"
    if wrong and all(check.name.startswith(ROWS_COUNTED) for check in wrong):
        return f"lockstep recount {name} --reason ..."
    return None
