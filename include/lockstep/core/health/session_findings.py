"""Checks settings of every session that would cut commits off or unhook constraints."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from lockstep.core.health.database_findings import DATABASE_SUBJECT, setting_in_force, undo_statement
from lockstep.core.health.findings import Check, Finding, Judged, problem, warning

if TYPE_CHECKING:
    from lockstep.core.health.database_findings import DatabaseFacts

TIMEOUTS = (Check.STATEMENT_TIMEOUT, Check.TRANSACTION_TIMEOUT, Check.SESSION_TIMEOUT)


def session_findings(facts: DatabaseFacts) -> Judged:
    """Judges the settings of this login's sessions. A server that lacks a setting passes."""
    return [replication_role(facts), *(timeout(facts, check) for check in TIMEOUTS)]


def replication_role(facts: DatabaseFacts) -> Finding | None:
    """Reports a session role other than `origin`, because triggers and foreign keys do not run in it."""
    check = Check.REPLICATION_ROLE
    if check not in facts.settings or facts.settings[check].value == "origin":
        return None
    why = "triggers and foreign keys, which keep the promises, do not run; every other command refuses this login"
    return problem(check, DATABASE_SUBJECT, setting_in_force(facts, check), why, undo_statement(facts, check, "origin"))


def timeout(facts: DatabaseFacts, check: Check) -> Finding | None:
    """Warns about a time limit that cuts off a person's long query under this login.

    Lockstep's own sessions set it to 0, because it would cancel a long commit each time it is tried.
    """
    given = timedelta(milliseconds=int(facts.settings[check].value)) if check in facts.settings else timedelta()
    if not given:
        return None
    found = f"{given.total_seconds():g} seconds, {setting_in_force(facts, check).partition(', ')[2]}"
    why = (
        "Lockstep's sessions set it to 0 for themselves; a person's long query under this login is cut off all the same"
    )
    return warning(check, DATABASE_SUBJECT, found, why, undo_statement(facts, check, "0"))
