"""Opens connections that assert the settings that the promises rest on, and runs transactions under a role."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg2
from psycopg2 import errors
from psycopg2.extensions import ISOLATION_LEVEL_REPEATABLE_READ, TransactionRollbackError
from psycopg2.extras import NamedTupleCursor

from lockstep.adapters.connection.dsn import CONNECT_SECONDS, SILENT_SECONDS, parts_and_command, patience
from lockstep.adapters.connection.opened import EXACT_VALUES, open_connection
from lockstep.adapters.connection.poolers import has_own_backend
from lockstep.adapters.connection.roles import granted
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
IDLE_SECONDS = 5.0  # a session that idles in a transaction for so long loses the transaction and its locks
HARMLESS = ("NOTICE", "INFO", "LOG", "DEBUG")  # a trigger may say these at COMMIT. A warning is the server's own.
OWN_PATH = "set search_path = pg_catalog, pg_temp"
OWN_PATH_LOCAL = "pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)"
UNBOUNDED = ("statement_timeout", "transaction_timeout", "idle_session_timeout")  # waits for locks are bounded instead


@dataclass(frozen=True, slots=True)
class Place:
    """The database that a message names: its name, the variable with its address, and the next command."""

    called: str = "the ledger's database"
    variable: str = "LOCKSTEP_DSN"
    next_command: str = "look at LOCKSTEP_DSN; for the embedded database: lockstep dev status"


LEDGER_PLACE = Place()


def connect(dsn: str, *, name: str = "lockstep", place: Place = LEDGER_PLACE) -> connection:
    """Opens a connection of one backend, with durable commits and read committed isolation, to a server that can be written.

    Raises `Unreachable` if Postgres is away or a standby, and `Refusal` if it could lose commits or read old rows.
    """
    conn = _opened(dsn, name, place)
    try:
        _require_own_backend(conn, dsn, place)
        _assert_promises(conn, place)
    except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
        conn.close()
        raise Unreachable(f"{place.called} went away: {last_line(error)}", next_command=place.next_command) from None
    except BaseException:
        conn.close()
        raise
    return conn


def connect_as_is(dsn: str, *, name: str = "lockstep", place: Place = LEDGER_PLACE) -> connection:
    """Opens a connection without checking its settings, to inspect them. Work needs `connect`.

    Raises `Unreachable` if Postgres is away, and `Refusal` if the DSN cannot be read. Neither repeats a secret.
    """
    conn = _opened(dsn, name, place)
    try:
        if has_own_backend(conn, dsn, open_connection):
            with conn, conn.cursor() as cur:
                cur.execute(OWN_PATH)
    except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
        conn.close()
        raise Unreachable(f"{place.called} went away: {last_line(error)}", next_command=place.next_command) from None
    return conn


def _opened(dsn: str, name: str, place: Place) -> connection:
    try:
        parts, _ = parts_and_command(dsn)
    except psycopg2.ProgrammingError:
        raise Refusal(
            f"{place.variable} cannot be read as a connection string (it is not shown: it may hold a password)",
            next_command=f"set {place.variable} to postgresql://USER:PASSWORD@HOST:PORT/DATABASE, special characters as %XX",
        ) from None
    try:
        conn: connection = open_connection(
            dsn,
            application_name=name,
            connect_timeout=CONNECT_SECONDS,
            cursor_factory=NamedTupleCursor,
            **patience("keepalives_"),
            tcp_user_timeout=SILENT_SECONDS * 1000,
        )
    except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
        raise Unreachable(
            f"{place.called} does not answer: {without_secrets(error, parts)}", next_command=place.next_command
        ) from None
    return conn


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
            # In one statement, because each statement is a round trip to the database. The path is set again for a session
            # through a pooler that shares backends: there `doctor` alone looks, and sets nothing for the session.
            become = "pg_catalog.set_config('role', %(role)s, true), " if role is not None else ""
            patience = {"lock": f"{int(lock_seconds * 1000)}ms", "role": role}
            with granted(cur, role, place.called, place.variable):
                cur.execute(
                    f"select {become}{OWN_PATH_LOCAL}, pg_catalog.set_config('lock_timeout', %(lock)s, true)", patience
                )
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
    except errors.ProgramLimitExceeded:
        raise  # a value is too large for a page or an index: the server is there
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


def _require_own_backend(conn: connection, dsn: str, place: Place) -> None:
    """Refuses a pooler that shares backends between sessions. Nothing is set before, so that nothing is left there."""
    if not has_own_backend(conn, dsn, open_connection):
        raise Refusal(
            f"{place.called} is behind a pooler that gives a session another connection for each transaction: settings, "
            "and the connections that the ledger records, would be another session's",
            next_command=f"set pool_mode to session there, or {place.variable} to Postgres itself",
        )


def _assert_promises(conn: connection, place: Place) -> None:
    with conn, conn.cursor() as cur:
        # Few statements, because each is a round trip. Compiling a statement costs more than the longest of ours.
        # A function in another schema of the path would be called if it fits better than Postgres's own.
        idle = f"set idle_in_transaction_session_timeout = {IDLE_SECONDS * 1000:.0f}"
        cur.execute("; ".join((OWN_PATH, *EXACT_VALUES, "set jit = off", idle)))
        values = patience("tcp_keepalives_") | {LEDGER_VERSION_SETTING: ledger_version(), OS_USER_SETTING: os_user()}
        # A server knows only some of the unbounded ones, by its version. A login's own limit would cancel each long
        # commit again.
        cur.execute(
            "select set_config(name, value, false) from unnest(%(names)s, %(values)s) as given(name, value)"
            " union all select set_config(name, '0', false) from unnest(%(unbounded)s) as known(name)"
            " where current_setting(name, true) is not null",
            {"names": [*values], "values": [*map(str, values.values())], "unbounded": list(UNBOUNDED)},
        )
        cur.execute(
            "select current_setting('synchronous_commit') as durable,"
            " current_setting('default_transaction_isolation') as isolation,"
            " current_setting('session_replication_role') as replication_role,"
            " current_setting('transaction_read_only') as read_only, pg_is_in_recovery() as standby,"
            " current_setting('server_encoding') as encoding"
        )
        found: Any = cur.fetchone()
        if found.durable in {"on", "remote_apply"}:
            # Once more, by the session itself: from now on no reload of the server's settings can weaken it.
            cur.execute("select set_config('synchronous_commit', %s, false)", (found.durable,))
    if found.standby:
        raise Unreachable(
            f"{place.called} is a standby: it cannot be written, and may show an older state",
            next_command=f"set {place.variable} to the primary, or to all servers with target_session_attrs=read-write",
        )
    if found.read_only == "on":
        raise Unreachable(
            f"{place.called} is read-only for this login: default_transaction_read_only is on",
            next_command=f"set default_transaction_read_only to off, or {place.variable} to the primary",
        )
    if found.durable not in {"on", "remote_apply"}:
        raise Refusal(
            f"synchronous_commit is {found.durable}: acknowledged commits could be lost; set it to on for this login",
            next_command="lockstep doctor",
        )
    if found.encoding != "UTF8":
        raise Refusal(
            f"{place.called} has the encoding {found.encoding}: it does not hold every text as the record has it",
            next_command=f"create database NAME encoding 'UTF8' template template0, and set {place.variable} to it",
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
