"""Chooses the login of the tasks that stage, and builds their DSN."""

from __future__ import annotations

from psycopg2.extensions import make_dsn, parse_dsn

from lockstep.adapters.postgres import CONNECT_SECONDS, SILENT_SECONDS, STAGER, keepalives

EXECUTOR = "lockstep_executor"
STAGING_SECONDS = 600


def executor_dsn(dsn: str, stager_dsn: str | None, name: str) -> str:
    """Returns the DSN of tasks on executors: over their own login if there is one, else over the ledger's."""
    return staging_dsn(stager_dsn, name, EXECUTOR) if stager_dsn else staging_dsn(dsn, name)


def staging_dsn(dsn: str, name: str, role: str = STAGER) -> str:
    """Returns the DSN of a session that stages under this role, with timeouts for a COPY that is never read."""
    options = (
        f"-c role={role} -c statement_timeout={STAGING_SECONDS}s -c timezone=UTC -c search_path=pg_catalog,pg_temp"
    )
    options += f" -c idle_in_transaction_session_timeout={STAGING_SECONDS}s"  # it waits for Kafka between two copies
    # Without these the server keeps a COPY whose client is gone, and its table, for as long as the system likes: hours.
    options += "".join(f" -c {name}={value}" for name, value in keepalives("tcp_keepalives_").items())
    given = parse_dsn(dsn).get("options", "")
    return make_dsn(
        dsn,
        options=f"{given} {options}".strip(),
        application_name=name,
        connect_timeout=CONNECT_SECONDS,
        **keepalives("keepalives_"),
        tcp_user_timeout=SILENT_SECONDS * 1000,
    )
