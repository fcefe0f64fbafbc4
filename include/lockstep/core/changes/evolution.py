"""Defines the difference between a definition and its tables: safe changes, and faults that a person must resolve."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from lockstep.core.pipeline.columns import FLOAT, WHOLE_TYPES

DIGEST = re.compile(r"^[0-9a-f]{64}\Z")
INDEXED = "_stream, _offset"  # columns that an index leads from a record to its rows by
INDEX = "index"
_NUMERIC = re.compile(r"^numeric\((\d+),(\d+)\)\Z")
_VARCHAR = re.compile(r"^character varying(?:\(\d+\))?\Z")


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """One safe change of a column, or a new index. `held` is a column's type today, None for a new column or index.

    `blocks` says that batches are refused until it is made. `rewrites` says that Postgres writes every row again.
    """

    table: str
    column: str
    held: str | None
    wanted: str
    statement: str
    blocks: bool
    rewrites: bool

    def __str__(self) -> str:
        if self.is_index:
            return (
                f"{self.table}: no index on ({INDEXED}), so lineage and a replay read the whole table; commits wait "
                "while --apply makes it, unless somebody makes it before by create index concurrently"
            )
        if self.held is None:
            return f"{self.table}: column {self.column} of type {self.wanted} is missing; old rows hold null in it"
        cost = "; every row is written again, and the table is locked meanwhile" if self.rewrites else ""
        return f"{self.table}: column {self.column} is {self.held} and becomes {self.wanted}{cost}"

    @property
    def is_index(self) -> bool:
        """Returns True for a new index."""
        return self.wanted == INDEX

    @property
    def is_a_limit(self) -> bool:
        """Returns True for a text with a maximum length, which may be intended."""
        return self.held is not None and bool(_VARCHAR.match(self.held))


@dataclass(frozen=True, slots=True, order=True)
class Unsafe:
    """One difference that no safe change removes, with the recipe. `blocks` says that a batch is refused over it."""

    table: str
    column: str | None
    found: str
    recipe: str
    blocks: bool

    def __str__(self) -> str:
        return f"{self.found}  Recipe: {self.recipe}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """The whole difference between a pipeline's definition and its tables.

    `held` and `decoded` are the columns of each table, and those that the definition decodes for it.
    """

    pipeline: str
    changes: tuple[Change, ...]
    unsafe: tuple[Unsafe, ...]
    held: dict[str, list[list[str]]]
    decoded: dict[str, list[list[str]]]

    @property
    def digest(self) -> str:
        """Returns the digest of everything that is shown. A change of table or definition changes it."""
        text = json.dumps(self._shown(), sort_keys=True, ensure_ascii=True)
        return sha256(text.encode()).hexdigest()

    @property
    def blocking(self) -> list[Change | Unsafe]:
        """Returns the differences over which a batch is refused."""
        every: list[Change | Unsafe] = [*self.changes, *self.unsafe]
        return [each for each in every if each.blocks]

    @property
    def differences(self) -> list[Change | Unsafe]:
        """Returns the differences to report without being asked.

        Leaves out a text with a maximum length, which may be intended.
        """
        return [*self.blocking, *(each for each in self.changes if not each.blocks and not each.is_a_limit)]

    def only(self, columns: tuple[str, ...]) -> Proposal:
        """Returns the proposal with the changes of these columns alone. No columns stand for all."""
        kept = tuple(change for change in self.changes if not columns or change.column in columns)
        return Proposal(self.pipeline, kept, self.unsafe, self.held, self.decoded)

    def document(self) -> dict[str, Any]:
        """Describes the proposal, for `--json`."""
        return self._shown() | {"digest": self.digest}

    def _shown(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline,
            "changes": [asdict(change) for change in self.changes],
            "unsafe": [asdict(each) for each in self.unsafe],
            "held": self.held,
            "decoded": self.decoded,
        }


def wider(held: str, staged: str) -> str | None:
    """Returns the type that holds every value of both types, or None if no safe one exists.

    A column of the first type can become it as it stands. Its values then stay the same, and keep their digest.
    """
    for order in (WHOLE_TYPES, FLOAT):
        if held in order and staged in order:
            return max(held, staged, key=order.index)
    if _VARCHAR.match(held) and staged == "text":
        return "text"
    ours, theirs = _NUMERIC.match(held), _NUMERIC.match(staged)
    if held == "numeric" or ours is None or theirs is None:
        return None
    scale = max(int(ours[2]), int(theirs[2]))
    return f"numeric({max(_before_point(ours), _before_point(theirs)) + scale},{scale})"


def rewrites(held: str, wanted: str) -> bool:
    """Returns True if Postgres writes every row again when a column's type changes like this."""
    if wanted == "text":
        return False
    ours, theirs = _NUMERIC.match(held), _NUMERIC.match(wanted)
    return not (ours and theirs and ours[2] == theirs[2])


def is_longer_text(one: str, other: str) -> bool:
    """Returns True if the first type limits a text's length and the second does not.

    Each text of the first type is then the same text in the second.
    """
    return bool(_VARCHAR.match(one)) and other in {"text", "character varying"}


def _before_point(numeric: re.Match[str]) -> int:
    return int(numeric[1]) - int(numeric[2])
