"""Reads the standbys of the ledger's server for the core to judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.connection.dsn import parts_and_command
from lockstep.adapters.postgres import transaction
from lockstep.core.health.replication_findings import ReplicationFacts, Standby
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from psycopg2.extensions import connection

Q = queries("lockstep.ledger.admin", "replication")


def replication_facts(conn: connection, dsn: str) -> ReplicationFacts:
    """Returns the standbys that stream from this server, and the number of servers that the DSN names."""
    with transaction(conn, None) as cur:
        cur.execute(Q["names"])
        server = one(cur)
        cur.execute(Q["standbys"])
        standbys = tuple(Standby(row.name, row.sync_state) for row in every(cur))
    parts, _ = parts_and_command(dsn)
    hosts = parts.get("host", "").count(",") + 1
    return ReplicationFacts(server.login, server.names, standbys, hosts, parts.get("target_session_attrs", "any"))
