"""Compares the database's catalog with that of the migrations, and names the statement that removes each difference."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.core.health.findings import Check, Finding, Judged, problem, warning

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

CATALOG_SUBJECT = "ledger"
FUNCTIONS = "take its text from the newest file of ledger/migrations that has it, and run it as lockstep_owner"
# Additional objects of these kinds endanger no promise: they read, speed up look-ups, or keep data aside.
HARMLESS_KINDS = frozenset({"owner", "column", "constraint", "index"})
TO_READ = frozenset({"select"})
_BETWEEN_PRIVILEGES = re.compile(r",(?![^()]*\))")  # a comma, but not of the columns in brackets

Object = tuple[str, str]  # kind and name


@dataclass(frozen=True, slots=True, order=True)
class Deviation:
    """One object that differs from what the migrations make.

    `made` is empty if the object is additional. `found` is empty if it is missing.
    """

    kind: str
    name: str
    made: str
    found: str

    def __str__(self) -> str:
        called = f"{self.kind} {self.name}"
        if self.kind == "foreign key":
            return f"{called} is disabled"
        if not self.found:
            return f"{called} is missing"
        if not self.made:
            return f"{called} is no migration's: {_short(self.found)}"
        if self.kind == "trigger" and self.found == self.made.replace("enabled", "DISABLED", 1):
            return f"{called} is disabled"
        if self.kind == "function":
            return f"{called} has another body, owner or option"
        return f"{called} is {_short(self.found)} instead of {_short(self.made)}"

    @property
    def is_harmless(self) -> bool:
        """Returns True for an additional object that no promise depends on."""
        if self.made:
            return False
        if self.kind == "grant":
            words = {word.partition(" (")[0] for word in _privileges(self.found)}
            return words <= (TO_READ | {"usage"} if self.name.startswith("schema ") else TO_READ)
        return self.kind in HARMLESS_KINDS

    @property
    def remedy(self) -> str:
        """Returns the statement that restores what the migrations made."""
        return _REMEDIES.get(self.kind, _of_others)(self)


def deviations(made: Mapping[Object, str], found: Mapping[Object, str]) -> list[Deviation]:
    """Returns every object that differs. Owners come first, because the owner of a table has every grant on it."""
    differing = [
        Deviation(*each, made.get(each, ""), found.get(each, ""))
        for each in made.keys() | found.keys()
        if made.get(each) != found.get(each)
    ]
    return sorted(differing, key=lambda each: (each.kind != "owner", each))


def catalog_findings(deviating: list[Deviation], named: Container[str]) -> Judged:
    """Returns one finding per deviation. Leaves out grants that another check has `named`."""
    judged: Judged = [_finding(each) for each in deviating if each.kind != "grant" or each.name not in named]
    return judged or [None]


def _finding(each: Deviation) -> Finding:
    if each.is_harmless:
        why = "no migration made it: the next one may not know what to do with it"
        return warning(Check.CATALOG, CATALOG_SUBJECT, str(each), why, each.remedy)
    why = "the promises rest on what the migrations made: what was written meanwhile is not proved"
    return problem(Check.CATALOG, CATALOG_SUBJECT, str(each), why, each.remedy)


def _of_trigger(each: Deviation) -> str:
    table, _, name = each.name.rpartition(".")
    if not each.made:
        return f"drop trigger {name} on {table}"
    if each.found and each.found.partition(": ")[2] == each.made.partition(": ")[2]:
        return f"alter table {table} enable trigger {name}"
    again = each.made.partition(": ")[2]
    return f"drop trigger {name} on {table}; {again}" if each.found else again


def _of_constraint(each: Deviation) -> str:
    table, _, name = each.name.rpartition(".")
    drop = f"alter table {table} drop constraint {name}"
    add = f"alter table {table} add constraint {name} {each.made}"
    return "; ".join([drop] * bool(each.found) + [add] * bool(each.made))


def _of_index(each: Deviation) -> str:
    drop = f"drop index lockstep.{each.name.rpartition('.')[2]}"
    return "; ".join([drop] * bool(each.found) + [each.made] * bool(each.made))


def _of_function(each: Deviation) -> str:
    return FUNCTIONS if each.made else f"drop function {each.name}"


def _of_grant(each: Deviation) -> str:
    what, _, grantee = each.name.rpartition(" to ")
    made, found = _privileges(each.made), _privileges(each.found)
    more = [f"revoke {', '.join(sorted(found - made))} on {what} from {grantee}"] if found - made else []
    return "; ".join(
        more + ([f"grant {', '.join(sorted(made - found))} on {what} to {grantee}"] if made - found else [])
    )


def _of_owner(each: Deviation) -> str:
    if not each.made:
        return f"drop {each.name}, or move it to a schema of your own"
    kind = "" if each.name.startswith("schema ") else "table "
    return f"alter {kind}{each.name} owner to {each.made}" if each.found else "restore it from a backup"


def _of_foreign_key(each: Deviation) -> str:
    return f"alter table {each.name.rpartition('.')[0]} enable trigger all, as a superuser"


def _of_role(each: Deviation) -> str:
    wrong = [f"no{word}" for word in each.found.split(", ") if word not in each.made.split(", ")]
    return f"alter role {each.name} {' '.join(wrong)}" if each.found else "lockstep migrate"


def _of_member(each: Deviation) -> str:
    member, _, role = each.name.partition(" of ")
    return f"revoke {role} from {member}" if each.found else f"grant {role} to {member}"


def _of_others(each: Deviation) -> str:
    if each.made:
        return "put it back as ledger/migrations makes it, as lockstep_owner"
    table, _, name = each.name.rpartition(".")
    if each.kind == "column":
        return f"alter table {table} drop column {name}"
    if each.kind == "row security":
        return f"alter table {each.name} disable row level security, no force row level security"
    return f"drop {each.kind} {name} on {table}"


_REMEDIES = {
    "trigger": _of_trigger,
    "constraint": _of_constraint,
    "index": _of_index,
    "function": _of_function,
    "grant": _of_grant,
    "owner": _of_owner,
    "foreign key": _of_foreign_key,
    "role": _of_role,
    "member": _of_member,
}


def _privileges(text: str) -> set[str]:
    """Splits `insert, update (a, b)` into its two privileges."""
    return {word.strip() for word in _BETWEEN_PRIVILEGES.split(text)} - {""}


def _short(text: str, longest: int = 100) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[:longest]}..."
