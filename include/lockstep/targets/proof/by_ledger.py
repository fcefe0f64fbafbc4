"""Chooses what the ledger alone can prove of a target's rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.pipeline.definition import Accumulate, History, Upsert, Windows
from lockstep.targets.proof import accumulated
from lockstep.targets.proof.truncated import truncation_checks
from lockstep.targets.proof.versioned import versions_checks
from lockstep.targets.proof.windowed import windowed_checks

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Target
    from lockstep.core.proof.verification import PromiseCheck


def checks_by_ledger(cur: cursor, pipeline: str, target: Target) -> list[PromiseCheck]:
    """Returns the checks of a target's rows that need no log."""
    match target:
        case Accumulate():
            return accumulated.checks(cur, pipeline, target)
        case History():
            return versions_checks(cur, pipeline, target)
        case Windows():
            return windowed_checks(cur, pipeline, target)
        case Upsert():
            return truncation_checks(cur, pipeline, target)
    return []
