"""Checks that the database keeps what it acknowledged, and that it is the one that commits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from lockstep.core.health.findings import Check, Finding, Judged, problem, warning
from lockstep.core.health.replication_findings import LOSES

if TYPE_CHECKING:
    from collections.abc import Mapping

DATABASE_SUBJECT = "database"
OLDEST_POSTGRES = 150_000
DURABLE = ("on", "remote_apply")
BESIDES_TASKS = 4  # the driver, its lease, the commit, and one to look with
SHORTEST_IDLE = timedelta(seconds=60)
LONGEST_IDLE = timedelta(minutes=5)
LOST = "a crash can take back what was acknowledged: rows or offsets that everybody took for committed"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting in force for our sessions. `source` uses the words of pg_settings."""

    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Backends:
    """The pids of the backends that served us: by the handshake, by two statements, and on another connection."""

    told: int
    first: int
    again: int
    other: int


@dataclass(frozen=True, slots=True)
class Room:
    """The allowed connections and those in use, by the nearest limit of server, database or login."""

    allowed: int
    used: int


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """The facts of the server, as the login of the DSN finds them."""

    login: str
    database: str
    version: int
    settings: Mapping[str, Setting]
    standby: bool
    backends: Backends
    room: Room
    longest_idle: timedelta | None  # of sessions that are idle in a transaction


def database_findings(facts: DatabaseFacts, tasks: int) -> Judged:
    """Judges the server's version, settings and connections for `tasks` that stage at the same time."""
    return [
        version(facts),
        *(kept_on(facts, check) for check in (Check.FSYNC, Check.FULL_PAGES)),
        synchronous(facts),
        isolation(facts),
        idle_timeout(facts),
        idle(facts),
        connections(facts, tasks),
        checksums(facts),
        standby(facts),
        pooler(facts.backends),
    ]


def version(facts: DatabaseFacts) -> Finding | None:
    """Reports a Postgres that is too old. The ledger's constraints need multiranges and later features."""
    if facts.version >= OLDEST_POSTGRES:
        return None
    return problem(
        Check.VERSION,
        DATABASE_SUBJECT,
        f"Postgres {facts.version // 10_000}",
        "the ledger is built and tested on Postgres 15 and newer",
        "move to Postgres 15 or newer",
    )


def kept_on(facts: DatabaseFacts, check: Check) -> Finding | None:
    """Reports `fsync` or `full_page_writes` that is off. A crash of the machine can then lose committed data."""
    if facts.settings[check].value == "on":
        return None
    return problem(check, DATABASE_SUBJECT, setting_in_force(facts, check), LOST, undo_statement(facts, check, "on"))


def synchronous(facts: DatabaseFacts) -> Finding | None:
    """Reports a COMMIT that answers before it is durable. A login or a database may have its own setting."""
    if facts.settings[Check.SYNCHRONOUS].value in DURABLE:
        return None
    return problem(
        Check.SYNCHRONOUS,
        DATABASE_SUBJECT,
        setting_in_force(facts, Check.SYNCHRONOUS),
        f"every other command refuses this login, for {LOSES.get(facts.settings[Check.SYNCHRONOUS].value, LOST)}",
        undo_statement(facts, Check.SYNCHRONOUS, "on"),
    )


def isolation(facts: DatabaseFacts) -> Finding | None:
    """Reports a default other than read committed. After it gets a lock, a statement must see the commits before."""
    if facts.settings[Check.ISOLATION].value == "read committed":
        return None
    return problem(
        Check.ISOLATION,
        DATABASE_SUBJECT,
        setting_in_force(facts, Check.ISOLATION),
        "behind a lock, an older snapshot shows stale positions; every other command refuses this login",
        undo_statement(facts, Check.ISOLATION, "'read committed'"),
    )


def idle_timeout(facts: DatabaseFacts) -> Finding | None:
    """Warns about a short timeout. A task that stages waits for Kafka inside its transaction."""
    given = timedelta(milliseconds=int(facts.settings[Check.IDLE_TIMEOUT].value))
    if not timedelta() < given < SHORTEST_IDLE:
        return None
    return warning(
        Check.IDLE_TIMEOUT,
        DATABASE_SUBJECT,
        f"{given.total_seconds():g} seconds, {_origin(facts, Check.IDLE_TIMEOUT)}",
        "a Spark task that waits for records inside its transaction is cut off; where it matters, Lockstep sets its own",
        undo_statement(facts, Check.IDLE_TIMEOUT, "0"),
    )


def idle(facts: DatabaseFacts) -> Finding | None:
    """Warns about a forgotten transaction. It keeps dead rows, and perhaps locks that a commit needs."""
    if facts.longest_idle is None or facts.longest_idle <= LONGEST_IDLE:
        return None
    return warning(
        Check.IDLE,
        DATABASE_SUBJECT,
        f"a session for {facts.longest_idle.total_seconds():.0f} seconds",
        "its locks may hold commits up, and vacuum removes nothing that is younger than its transaction",
        "select pid, usename, application_name from pg_stat_activity where state like 'idle in transaction%';"
        " then pg_terminate_backend(pid)",
    )


def connections(facts: DatabaseFacts, tasks: int) -> Finding | None:
    """Reports too few free connections. Each Spark task has its own connection while it stages."""
    needed, room = tasks + BESIDES_TASKS, facts.room
    if room.allowed - room.used >= needed:
        return None
    never = room.allowed < needed
    return (problem if never else warning)(
        Check.CONNECTIONS,
        DATABASE_SUBJECT,
        f"{room.allowed} for this login, {room.used} of them in use",
        f"{tasks} tasks stage at once, each on its own connection, and {BESIDES_TASKS} more are needed beside them:"
        f" a batch {'cannot run' if never else 'may fail now'}",
        f"alter system set max_connections = {max(100, 2 * (room.used + needed))}, and restart; or fewer cores for Spark;"
        f" or a higher connection limit of role {facts.login} or database {facts.database}",
    )


def checksums(facts: DatabaseFacts) -> Finding | None:
    """Warns if checksums are off. Postgres then returns a page that was damaged on disk as if it were right."""
    if facts.settings[Check.CHECKSUMS].value == "on":
        return None
    return warning(
        Check.CHECKSUMS,
        DATABASE_SUBJECT,
        "off",
        "a page that rots on disk is read as if it were right, and no constraint looks at it again",
        "stop the server, pg_checksums --enable -D DATA, start it; or initdb --data-checksums",
    )


def standby(facts: DatabaseFacts) -> Finding | None:
    """Reports a standby. It is read-only and lags behind, so no decision may rest on it."""
    if not facts.standby:
        return None
    return problem(
        Check.STANDBY,
        DATABASE_SUBJECT,
        "in recovery",
        "a standby cannot be written, and what it has not replayed yet looks as if it had never been committed",
        "point LOCKSTEP_DSN at the primary, or add target_session_attrs=read-write to it",
    )


def pooler(backends: Backends) -> Finding | None:
    """Reports a pooler in between. Locks, settings and the recorded process id all belong to one backend."""
    if backends.first != backends.again or backends.first == backends.other:
        return problem(
            Check.POOLER,
            DATABASE_SUBJECT,
            "backends are shared between connections",
            "behind a transaction pooler `set`, the pid that is written down and the lease belong to nobody in particular",
            "point LOCKSTEP_DSN at Postgres itself, or make the pooler's pool_mode session",
        )
    if backends.told != backends.first:
        return warning(
            Check.POOLER,
            DATABASE_SUBJECT,
            "the handshake names another backend than the one that answers",
            "something stands between: in session mode it does no harm, in transaction mode locks and settings go astray",
            "point LOCKSTEP_DSN at Postgres itself",
        )
    return None


def setting_in_force(facts: DatabaseFacts, check: Check) -> str:
    """Returns the setting's value and its source, in words."""
    return f"{facts.settings[check].value}, {_origin(facts, check)}"


def _origin(facts: DatabaseFacts, check: Check) -> str:
    match facts.settings[check].source:
        case "user":
            return f"set for role {facts.login}"
        case "database":
            return f"set for database {facts.database}"
        case "database user":
            return f"set for role {facts.login} in database {facts.database}"
        case "client":
            return "set by the connection's own options"
        case source:
            return f"set by the server ({source})"


def undo_statement(facts: DatabaseFacts, check: Check, value: str) -> str:
    """Returns the statement that undoes the setting where it was made."""
    match facts.settings[check].source:
        case "user":
            return f'alter role "{facts.login}" reset {check}'
        case "database":
            return f'alter database "{facts.database}" reset {check}'
        case "database user":
            return f'alter role "{facts.login}" in database "{facts.database}" reset {check}'
        case "client":
            return f"take {check} out of the options in LOCKSTEP_DSN or PGOPTIONS"
        case _:
            return f"alter system set {check} = {value}; select pg_reload_conf()"
