"""Checks that a failover keeps acknowledged commits: standbys, what COMMIT waits for, and the server of a session."""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.core.health.findings import Check, Finding, Judged, problem, warning

REPLICATION_SUBJECT = "database"
SYNCHRONOUS = ("sync", "quorum")
WRITABLE = ("read-write", "primary")
# The possible loss of a COMMIT that does not wait for everything, by the value of synchronous_commit.
LOSES = {
    "local": "COMMIT waits for no standby: a failover can take back what was acknowledged",
    "remote_write": "COMMIT waits for no disk of a standby: a crash there and a failover take back what was acknowledged",
}
FAILOVER_LOSES = (
    "a failover may take back commits that were told, and the group and other stores do not go back with the ledger"
)


@dataclass(frozen=True, slots=True)
class Standby:
    """One server that streams from this one. `sync_state` is None if the login may not see it."""

    name: str | None
    sync_state: str | None


@dataclass(frozen=True, slots=True)
class ReplicationFacts:
    """The standbys as this login may see them, and what the DSN says about several servers."""

    login: str
    names: str
    standbys: tuple[Standby, ...]
    hosts: int = 1
    session: str = "any"


def replication_findings(facts: ReplicationFacts) -> Judged:
    """Judges whether replication keeps the promise that a commit stays."""
    return [standbys(facts), sessions(facts)]


def standbys(facts: ReplicationFacts) -> Finding | None:
    """Reports asynchronous standbys. A promoted standby has every acknowledged commit only if COMMIT waited for it."""
    if any(each.sync_state is None for each in facts.standbys):
        return warning(
            Check.STANDBYS,
            REPLICATION_SUBJECT,
            f"{len(facts.standbys)} standbys, and this login may not see whether they are synchronous",
            FAILOVER_LOSES,
            f'grant pg_read_all_stats to "{facts.login}", then lockstep doctor',
        )
    synchronous = [each for each in facts.standbys if each.sync_state in SYNCHRONOUS]
    if facts.names and not synchronous:
        return problem(
            Check.STANDBYS,
            REPLICATION_SUBJECT,
            f"{facts.names}, and no standby is synchronous now",
            "every COMMIT waits until one of them is back: nothing is planned, staged or committed until then",
            "start the standby; or, if it is gone for good, alter system reset synchronous_standby_names"
            " and select pg_reload_conf()",
        )
    if facts.standbys and not synchronous:
        names = ", ".join(sorted(each.name or "one without a name" for each in facts.standbys))
        return warning(
            Check.STANDBYS,
            REPLICATION_SUBJECT,
            f"empty, and {names} streams asynchronously",
            FAILOVER_LOSES,
            "alter system set synchronous_standby_names = '*', and select pg_reload_conf();"
            " or never promote it without lockstep restored NAME",
        )
    return None


def sessions(facts: ReplicationFacts) -> Finding | None:
    """Reports several servers in the DSN without a choice of the primary. A session may be with a standby."""
    if facts.hosts < 2 or facts.session in WRITABLE:  # noqa: PLR2004 - one server is no choice
        return None
    return problem(
        Check.SESSION,
        REPLICATION_SUBJECT,
        f"{facts.session}, with {facts.hosts} servers in LOCKSTEP_DSN",
        "a session may be with a standby, which cannot be written and shows an older ledger",
        "add target_session_attrs=read-write to LOCKSTEP_DSN",
    )
