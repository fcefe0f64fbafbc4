"""Reads the ledger's version: the number of the newest migration that this code comes with."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

LEDGER_VERSION_SETTING = "lockstep.ledger_version"  # each session states in it the ledger version of its code


@cache
def ledger_version() -> int:
    """Returns the newest migration's number. A ledger of any other version is refused, before and during a run."""
    folder = files("lockstep").joinpath("ledger", "migrations")
    return max(int(file.name[:4]) for file in folder.iterdir() if file.name.endswith(".sql"))
