"""Compares the ledger's version with this code's: at a command's start, and again under each lock that decides."""

from __future__ import annotations

from lockstep.core.errors import MIGRATE, WrongVersion
from lockstep.ledger_version import ledger_version


def require_version(found: int) -> None:
    """Refuses a ledger that is older or newer than this code. Names both versions and the next command."""
    made_for = ledger_version()
    if found < made_for:
        raise WrongVersion(f"the ledger is at version {found}, this code needs {made_for}", next_command=MIGRATE)
    if found > made_for:
        raise WrongVersion(
            f"the ledger is at version {found}, newer than this code's {made_for}: update lockstep on this machine"
        )
