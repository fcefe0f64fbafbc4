"""Opens connections: with the password that a command gives, and for tasks that stage."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import psycopg2
from psycopg2.extras import register_default_json, register_default_jsonb

from lockstep.adapters.connection.dsn import parts_and_command, patience
from lockstep.adapters.connection.password import PASSWORDS
from lockstep.adapters.connection.poolers import has_own_backend
from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from psycopg2.extensions import connection

STAGING_SECONDS = 600
# A login may have settings of its own, by which Postgres would give other texts for moments, floats and bytes.
EXACT_VALUES = ("set timezone = 'UTC'", "set extra_float_digits = 1", "set bytea_output = 'hex'")
# The login of executors may not be the stager. It may stage, and nothing else.
SET_ROLE = """select set_config('role', case when pg_has_role('lockstep_stager', 'member') then 'lockstep_stager'
    else 'lockstep_executor' end, false)"""
# Set by statements, since a pooler takes no options at the start. The path comes first: no name is looked up before.
AS_STAGER = "; ".join(
    [
        "set search_path = pg_catalog, pg_temp",
        SET_ROLE,
        *EXACT_VALUES,
        f"set statement_timeout = '{STAGING_SECONDS}s'",  # for a COPY that is never read
        f"set idle_in_transaction_session_timeout = '{STAGING_SECONDS}s'",  # it waits for Kafka between two copies
        # Without these the server keeps a COPY whose client is gone, and its table, for as long as the system likes: hours.
        *(f"set {name} = {value}" for name, value in patience("tcp_keepalives_").items()),
        # Only servers since Postgres 17 know it.
        "select set_config(name, '0', false) from pg_settings where name = 'transaction_timeout'",
    ]
)


def open_connection(dsn: str, **more: Any) -> connection:
    """Connects by libpq, and asks the command of the DSN for the password if it carries one.

    The session speaks UTF-8, because COPY takes Arrow's bytes as they are.
    If a server refuses a password that was kept, the command is asked once more.
    """
    parts, command = parts_and_command(dsn)
    parts |= {"client_encoding": "UTF8"} | more
    if command is not None:
        parts["password"] = PASSWORDS.ask(command)
    try:
        conn: connection = psycopg2.connect(**parts)
    except psycopg2.OperationalError:
        if command is None or (anew := PASSWORDS.ask(command, refused=parts["password"])) == parts["password"]:
            raise
        conn = psycopg2.connect(**parts | {"password": anew})
    for register in (register_default_json, register_default_jsonb):
        register(conn, loads=_document)
    return conn


def _document(text: str) -> Any:
    """Returns what a document of JSON says. One that Python cannot read, as it is nested too deep, stays its text."""
    try:
        return json.loads(text, parse_float=_fraction)
    except (RecursionError, ValueError):
        return text


def _fraction(text: str) -> float | str:
    """Returns the number, or the text of one that is larger than any float."""
    number = float(text)
    return number if math.isfinite(number) else text


def open_stager(dsn: str, **more: Any) -> connection:
    """Connects for a `staging_dsn`, as the stager or as an executor. The session ends what its client has left.

    Raises `Refusal` behind a pooler that shares backends between sessions.
    """
    conn = open_connection(dsn, **more)
    try:
        _require_own_backend(conn, dsn)
        with conn, conn.cursor() as cur:
            cur.execute(AS_STAGER)
    except BaseException:
        conn.close()
        raise
    return conn


def _require_own_backend(conn: connection, dsn: str) -> None:
    if not has_own_backend(conn, dsn, open_connection):
        raise Refusal(
            "the database that tasks write to is behind a pooler that gives a session another connection for each "
            "transaction: its role and its limits would be another session's",
            next_command="set pool_mode to session there, or the executors' address to Postgres itself",
        )
