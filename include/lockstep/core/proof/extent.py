"""Says what the checks of `verify` prove of each target: against what, and for how many of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lockstep.core.proof.certificate import NOT_FORGERS
from lockstep.core.proof.verification import ROWS_BY_SHA

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockstep.core.proof.verification import Against, BatchesSince, PromiseCheck, Proves, Share, Unit

Proved = Literal["log", "ledger", "part", "no", "wrong"]
IN_WORDS = {
    "log": "compared with Kafka",
    "ledger": "compared with the ledger",
    "no": "not compared",
    "wrong": "WRONG",
}
REST_IN_WORDS = {"ledger": "the rest with the ledger", "no": "the rest not at all"}


@dataclass(frozen=True, slots=True)
class Part:
    """The rows or segments of a target that were compared with one side, by number, and what proves the rest."""

    compared: int
    of: int
    unit: Unit
    against: Against
    rest: Literal["ledger", "no"]

    def __str__(self) -> str:
        return f"{IN_WORDS[self.against]} for {self.compared} of {self.of} {self.unit}, {REST_IN_WORDS[self.rest]}"


@dataclass(frozen=True, slots=True)
class Proof:
    """The result for one target's rows: proved against the log or the ledger, in part, not compared, or found wrong."""

    target: str
    coordinates: Proved
    contents: Proved
    coordinates_part: Part | None = None
    contents_part: Part | None = None

    @property
    def rests_on_digests(self) -> bool:
        """Returns True if the ledger's digests alone speak for some of the contents."""
        part = self.contents_part
        return self.contents == "ledger" or (part is not None and "ledger" in {part.against, part.rest})

    def __str__(self) -> str:
        coordinates, contents = (
            str(part) if part else IN_WORDS[side]
            for side, part in (
                (self.coordinates, self.coordinates_part),
                (self.contents, self.contents_part),
            )
        )
        if coordinates == contents:
            return f"{self.target}: coordinates and contents {contents}"
        between = ";" if self.coordinates_part or self.contents_part else ","
        return f"{self.target}: coordinates {coordinates}{between} contents {contents}"


def proofs(tables: Sequence[str], checks: Sequence[PromiseCheck]) -> list[Proof]:
    """Returns what the checks prove of each table, and no more than that."""
    found = []
    for table in tables:
        coordinates, its = _side(table, "coordinates", checks)
        contents, theirs = _side(table, "contents", checks)
        found.append(Proof(table, coordinates, contents, its, theirs))
    return found


def conclusion(
    name: str,
    found: Sequence[Proof],
    checks: Sequence[PromiseCheck],
    since: BatchesSince | None = None,
    given_up: str = "",
) -> str:
    """Returns the last line: whether every check holds, which offsets are `given_up`, and what was compared.

    It says what digests do not prove, if they alone speak for some of the contents, without a SHA-256.
    """
    failed = sum(not check.ok for check in checks)
    verdict = f"NOT every check holds: {failed} of {len(checks)} fail" if failed else "every check holds"
    made = "every check that was made holds" if not all(check.is_made for check in checks) else verdict
    verdict = verdict if failed else made
    if since:
        verdict += (
            f", for {len(since.batches)} batches since {since.shown}; {since.before} earlier ones were not looked at"
        )
    hashed = {c.target for c in checks if c.name.startswith(ROWS_BY_SHA) and c.proves == "contents"}
    warned = [NOT_FORGERS] if any(proof.rests_on_digests and proof.target not in hashed for proof in found) else []
    return f"{name}: {'. '.join([verdict, *filter(None, [given_up]), *map(str, found), *warned])}."


def more_to_compare(name: str, checks: Sequence[PromiseCheck]) -> str | None:
    """Returns the command after which a deep look compares more, or None if this one compared everything.

    A replay decodes a batch by today's definition. An archive keeps the records that Kafka still holds.
    """
    shares = [check.share for check in checks if check.share and not check.share.is_whole]
    if not shares:
        return None
    batches = [share.batch for share in shares if share.batch is not None]
    if batches:
        return f"lockstep replay {name} --batch {min(batches)}"
    named = [share.next_command for share in shares if share.next_command is not None]
    return (next(filter(None, named), None) if named else f"lockstep archive {name}") or None


def next_look(found: Iterable[Proof], deep: str) -> str | None:
    """Returns the command of the `deep` look, or None if every row's values were compared with Kafka already."""
    return None if all(proof.contents == "log" for proof in found) else deep


def _side(table: str, side: Proves, checks: Sequence[PromiseCheck]) -> tuple[Proved, Part | None]:
    its = [check for check in checks if check.target == table and check.proves == side]
    if not all(check.ok for check in its):
        return "wrong", None
    by_log = [check for check in its if check.against == "log"]
    by_ledger = [check for check in its if check.against == "ledger"]
    least = _least(by_ledger)
    proved_by_ledger = bool(by_ledger) and least is None
    if by_log:
        share = _least(by_log)
        if share is None:
            return "log", None
        if share.compared:
            rest: Literal["ledger", "no"] = "ledger" if proved_by_ledger else "no"
            return "part", Part(share.compared, share.of, share.unit, "log", rest)
    if least is not None and least.compared:
        return "part", Part(least.compared, least.of, least.unit, "ledger", "no")
    return ("ledger" if proved_by_ledger else "no"), None


def _least(checks: Iterable[PromiseCheck]) -> Share | None:
    """Returns the smallest share that one of the checks has compared, or None if all compared everything."""
    shares = [check.share for check in checks if check.share and not check.share.is_whole]
    return min(shares, key=lambda share: share.compared / share.of, default=None)
