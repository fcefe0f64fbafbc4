"""Opens connections that assert the settings that the promises rest on, and runs transactions under a role."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg2
from psycopg2 import errors, sql
from psycopg2.extensions import ISOLATION_LEVEL_REPEATABLE_READ, TransactionRollbackError, parse_dsn
from psycopg2.extras import NamedTupleCursor

from lockstep.adapters.os_user import OS_USER_SETTING, os_user
from lockstep.adapters.postgres_words import first_line, last_line, without_secrets
from lockstep.core.errors import LockTimeout, Refusal, Unreachable
from lockstep.ledger_version import LEDGER_VERSION_SETTING, ledger_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg2.extensions import connection

PLANNER = "lockstep_planner"
STAGER = "lockstep_stager"
COMMITTER = "lockstep_committer"
PARTITION_ROLE = "lockstep_partition"
READER = "lockstep_reader"
OWNER = "lockstep_owner"
TARGETS_ROLE = "lockstep_targets"
DEFAULT_LOCK_SECONDS = 10.0
CONNECT_SECONDS = 10
IDLE_SECONDS = 5.0  # a session that idles in a transaction for so long loses the transaction and its locks
HARMLESS = ("NOTICE", "INFO", "LOG", "DEBUG")  # a trigger may say these at COMMIT. A warning is the server's own.
UNBOUNDED = ("statement_timeout", "transaction_timeout", "idle_session_timeout")  # waits for locks are bounded instead
SILENT_SECONDS = 30  # sent data is acknowledged by then, or the connection counts as dead


@dataclass(frozen=True, slots=True)
class Place:
    """The database that a message names: its name, the variable with its address, and the next command."""

    called: str = "the ledger's database"
    variable: str = "LOCKSTEP_DSN"
    next_command: str = "look at LOCKSTEP_DSN; for the embedded database: lockstep dev status"


LEDGER_PLACE = Place()


def connect(dsn: str, *, name: str = "lockstep", place: Place = LEDGER_PLACE) -> connection:
    """Opens a direct connection with durable commits and read committed isolation.

    Raises `Unreachable` if Postgres is away, and `Refusal` if it could lose commits or read old rows.
    """
    conn = connect_as_is(dsn, name=name, place=place)
    try:
        _assert_promises(conn)
    except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
        conn.close()
        raise Unreachable(f"{place.called} went away: {last_line(error)}", next_command=place.next_command) from None
    except BaseException:
        conn.close()
        raise
    return conn


def connect_as_is(dsn: str, *, name: str = "lockstep", place: Place = LEDGER_PLACE) -> connection:
    """Opens a direct connection without checking its settings, to inspect them. Work needs `connect`.

    Raises `Unreachable` if Postgres is away, and `Refusal` if the DSN cannot be read. Neither repeats a secret.
    """
    try:
        parts = parse_dsn(dsn)
    except psycopg2.ProgrammingError:
        raise Refusal(
            f"{place.variable} cannot be read as a connection string (it is not shown: it may hold a password)",
            next_command=f"set {place.variable} to postgresql://USER:PASSWORD@HOST:PORT/DATABASE, special characters as %XX",
        ) from None
    try:
        conn: connection = psycopg2.connect(
            dsn,
            application_name=name,
            connect_timeout=CONNECT_SECONDS,
            cursor_factory=NamedTupleCursor,
            **keepalives("keepalives_"),
            tcp_user_timeout=SILENT_SECONDS * 1000,
        )
        # Otherwise a function in another schema of the path would be called if it fits better than Postgres's own.
        with conn, conn.cursor() as cur:
            cur.execute("set search_path = pg_catalog, pg_temp")
    except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
        raise Unreachable(
            f"{place.called} does not answer: {without_secrets(error, parts)}", next_command=place.next_command
        ) from None
    return conn


def become(cur: psycopg2.extensions.cursor, role: str) -> None:
    """Continues under another role, until the transaction ends."""
    cur.execute("select set_config('role', %s, true)", (role,))


@contextmanager
def transaction(
    conn: connection, role: str | None, *, lock_seconds: float = DEFAULT_LOCK_SECONDS, place: Place = LEDGER_PLACE
) -> Iterator[Any]:
    """Runs one transaction under one role: commits at the end of the block, rolls back if it raises.

    Raises `LockTimeout` if another transaction was in the way, and `Unreachable` if the connection is lost. Also raises
    `Unreachable` if the server stopped waiting for a synchronous standby. The server reports that as a COMMIT with a
    warning, and a failover may undo it.
    """
    try:
        with conn, conn.cursor() as cur:
            # In one statement, because each statement is a round trip to the database.
            become = "set_config('role', %(role)s, true), " if role is not None else ""
            patience = {"lock": f"{int(lock_seconds * 1000)}ms", "role": role}
            cur.execute(f"select {become}set_config('lock_timeout', %(lock)s, true)", patience)
            yield cur
            conn.notices.clear()
        for notice in conn.notices:
            if not notice.startswith(HARMLESS):
                raise Unreachable(
                    f"{place.called} has committed here, and its standby has not confirmed it: {' '.join(notice.split())}",
                    next_command="lockstep doctor",
                )
    except (errors.LockNotAvailable, TransactionRollbackError) as error:
        raise LockTimeout(f"another transaction stood in the way: {last_line(error)}") from None
    except errors.ReadOnlySqlTransaction as error:
        raise Unreachable(
            f"{place.called} is read-only, as a standby is: {first_line(error)}",
            next_command=f"set default_transaction_read_only to off, or {place.variable} to the primary",
        ) from None
    except errors.QueryCanceled as error:
        raise Unreachable(
            f"{place.called} cancelled a statement: {first_line(error)}; nothing of its transaction was kept",
            next_command="lockstep doctor",
        ) from error
    except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
        if isinstance(error, errors.DiskFull | errors.OutOfMemory) and not conn.closed:
            raise Unreachable(f"{place.called} has no room: {first_line(error)}") from None
        raise Unreachable(f"the connection to {place.called} was lost: {last_line(error)}") from error


@contextmanager
def snapshot(conn: connection, role: str | None) -> Iterator[Any]:
    """Runs one transaction under one role in which every statement sees the snapshot of the first one."""
    conn.isolation_level = ISOLATION_LEVEL_REPEATABLE_READ
    try:
        with transaction(conn, role) as cur:
            cur.execute("set local idle_in_transaction_session_timeout = 0")  # it waits for others in between
            yield cur
    finally:
        if not conn.closed:
            conn.isolation_level = None


def ensure_database(dsn: str, name: str, **settings: str) -> None:
    """Creates a database of this name on the same server, owned by the login. Keeps the contents of an existing one."""
    conn = connect(dsn)
    conn.autocommit = True
    try:
        with conn.cursor() as cur:
            cur.execute("select 1 from pg_database where datname = %s", (name,))
            if cur.fetchone() is None:
                cur.execute(sql.SQL("create database {name}").format(name=sql.Identifier(name)))
            for setting, value in settings.items():
                alter = sql.SQL("alter database {name} set {setting} to {value}")
                cur.execute(
                    alter.format(name=sql.Identifier(name), setting=sql.Identifier(setting), value=sql.Literal(value))
                )
    finally:
        conn.close()


def parameters_of(dsn: str) -> dict[str, str]:
    """Returns the parameters of a DSN by libpq's names."""
    return dict(parse_dsn(dsn))


def way_to(dsn: str) -> tuple[list[str], str]:
    """Returns the hosts that a DSN names, without sockets, and its sslmode. Both are empty if it names none."""
    parts = parse_dsn(dsn)
    return [host for host in parts.get("host", "").split(",") if not host.startswith("/")], parts.get("sslmode", "")


def keepalives(prefix: str) -> dict[str, Any]:
    """Returns keepalive settings, by which either end detects a peer that is silent for `SILENT_SECONDS`."""
    idle, interval = max(1, SILENT_SECONDS // 3), max(1, SILENT_SECONDS // 6)
    return {f"{prefix}idle": idle, f"{prefix}interval": interval, f"{prefix}count": 3}


def _assert_promises(conn: connection) -> None:
    with conn, conn.cursor() as cur:
        cur.execute("set timezone = 'UTC'")
        cur.execute("set jit = off")  # compiling a statement costs more than the longest of ours
        cur.execute(f"set idle_in_transaction_session_timeout = {IDLE_SECONDS * 1000:.0f}")
        # A server knows only some of these, by its version. A login's own limit would cancel each long commit again.
        unbounded = "select set_config(name, '0', false) from pg_settings where name = any(%s)"
        cur.execute(unbounded, (list(UNBOUNDED),))
        for name, value in (
            keepalives("tcp_keepalives_") | {LEDGER_VERSION_SETTING: ledger_version(), OS_USER_SETTING: os_user()}
        ).items():
            cur.execute("select set_config(%s, %s, false)", (name, str(value)))
        cur.execute(
            "select current_setting('synchronous_commit') as durable,"
            " current_setting('default_transaction_isolation') as isolation,"
            " current_setting('session_replication_role') as replication_role"
        )
        found: Any = cur.fetchone()
        if found.durable in {"on", "remote_apply"}:
            # Once more, by the session itself: from now on no reload of the server's settings can weaken it.
            cur.execute("select set_config('synchronous_commit', %s, false)", (found.durable,))
    if found.durable not in {"on", "remote_apply"}:
        raise Refusal(
            f"synchronous_commit is {found.durable}: acknowledged commits could be lost; set it to on for this login",
            next_command="lockstep doctor",
        )
    if found.isolation != "read committed":
        raise Refusal(
            f"default_transaction_isolation is {found.isolation}: the ledger needs read committed",
            next_command="lockstep doctor",
        )
    if found.replication_role != "origin":
        raise Refusal(
            f"session_replication_role is {found.replication_role}: triggers and foreign keys, which keep the promises, "
            "would not run; reset it for this login or database",
            next_command="lockstep doctor",
        )
