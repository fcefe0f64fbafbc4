"""Defines a mutant: the product with one guard less, and the tests that must turn red because of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

ALONE = "tests/simulation/test_guards_alone.py::test_a_guard_alone_keeps_the_promise"
MIGRATIONS = "include/lockstep/ledger/migrations"
SPACE_BEFORE_ID = re.compile(r"\s+(?=tests/)")  # an id holds spaces, too, where its case has a name of several words


class StaleMutantError(Exception):
    """The error of a mutant whose text does not stand exactly once in its file, so that it proves nothing."""


@dataclass(frozen=True, slots=True)
class Edit:
    """The replacement of one text by another in a file of `include/lockstep`."""

    file: str
    old: str
    new: str

    @property
    def is_of_the_database(self) -> bool:
        return "migrations/" in self.file

    def apply(self, tree: Path) -> None:
        path = tree / "include" / "lockstep" / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise StaleMutantError(f"{self.file}: {self.old!r} is there {text.count(self.old)} times, not once")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()  # one of the same size and second would be taken for the changed one's

    def __str__(self) -> str:
        return self.file


@dataclass(frozen=True, slots=True)
class Drop:
    """A constraint, an index or a trigger that an added last migration drops."""

    statement: str

    @property
    def is_of_the_database(self) -> bool:
        return True

    def apply(self, tree: Path) -> None:
        (tree / MIGRATIONS / "9999_mutant.sql").write_text(f"{self.statement};\n", encoding="utf-8")

    def __str__(self) -> str:
        return "database"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A changed tree that tests must notice.

    `red` are the tests that must fail, each by an assertion. All others that run must pass.
    `others` are files or tests that run, too, limited to names that contain `only`.
    """

    name: str
    why: str
    changes: tuple[Edit | Drop, ...]
    red: tuple[str, ...]
    others: tuple[str, ...] = ()
    only: str | None = None
    long: bool = False


def alone(
    name: str, guard: str, dangers: tuple[str, ...], why: str, *changes: Edit | Drop, long: bool = False
) -> Mutant:
    """Returns a mutant that leaves one guard on and switches all others off.

    Its own tests turn red. Those of other guards do not.
    """
    red = tuple(f"{ALONE}[{danger}-{guard}]" for danger in dangers)
    return Mutant(name, why, changes, red, (ALONE.partition("::")[0],), " or ".join(dangers), long)


def one(name: str, why: str, red: str | tuple[str, ...], *changes: Edit | Drop, long: bool = False) -> Mutant:
    """Returns a mutant whose red tests are the only ones that run. A text lists their ids, separated by spaces."""
    return Mutant(name, why, changes, tuple(SPACE_BEFORE_ID.split(red)) if isinstance(red, str) else red, long=long)
