"""Reads the settings of the database and the ledger for the core to judge. Needs no role that may be missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from lockstep.adapters.connection.opened import open_connection
from lockstep.adapters.connection.poolers import backends_of
from lockstep.adapters.postgres import transaction
from lockstep.core.health.database_findings import Backends, DatabaseFacts, Room, Setting
from lockstep.core.health.findings import Check
from lockstep.core.health.ledger_findings import LedgerFacts, TargetFacts
from lockstep.core.lake.iceberg import Iceberg
from lockstep.core.ledger_rights import EXPECTED_ROLES, GRANTS, HISTORY_TABLES, OF_A_RUN, Grant
from lockstep.core.planning.tasks import PastBatch, PastBatches
from lockstep.ledger.admin.author import foreign_code
from lockstep.ledger.migrate import Q as MIGRATIONS
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe, one

if TYPE_CHECKING:
    from psycopg2.extensions import connection, cursor

    from lockstep.core.pipeline.definition import Pipeline

Q = queries("lockstep.ledger.admin", "facts")
DATABASE_SETTINGS = (
    Check.FSYNC,
    Check.FULL_PAGES,
    Check.SYNCHRONOUS,
    Check.ISOLATION,
    Check.IDLE_TIMEOUT,
    Check.CHECKSUMS,
    Check.REPLICATION_ROLE,
    Check.STATEMENT_TIMEOUT,
    Check.TRANSACTION_TIMEOUT,
    Check.SESSION_TIMEOUT,
)
SHORTEST_PACE = 60.0  # seconds of log: what was sent in one go says nothing about a day


@dataclass(frozen=True, slots=True)
class Flow:
    """The size of a record, the pace of the fastest stream, and the newest batches. None means unknown."""

    bytes_per_record: float | None
    bytes_per_second: float | None
    past: PastBatches = field(default_factory=PastBatches)


def database_facts(conn: connection, dsn: str) -> DatabaseFacts:
    """Reads the server's settings over this connection. A second connection shows if a pooler shares backends."""
    with transaction(conn, None) as cur:
        cur.execute(Q["server"])
        server = one(cur)
        cur.execute(Q["settings"], {"names": [str(name) for name in DATABASE_SETTINGS]})
        settings = {row.name: Setting(row.value, row.source) for row in every(cur)}
        cur.execute(Q["connections"])
        room = Room(*one(cur))
        cur.execute(Q["longest_idle"])
        idle = one(cur).seconds
    return DatabaseFacts(
        login=server.login,
        database=server.database,
        version=server.version,
        settings=settings,
        standby=server.standby,
        backends=Backends(conn.info.backend_pid, *backends_of(conn, lambda: open_connection(dsn))),
        room=room,
        longest_idle=None if idle is None else timedelta(seconds=idle),
    )


def ledger_facts(conn: connection) -> LedgerFacts:
    """Reads the ledger's migrations, roles and grants."""
    with transaction(conn, None) as cur:
        cur.execute(Q["server"])
        login = one(cur).login
        cur.execute(Q["roles"], {"roles": list(EXPECTED_ROLES)})
        roles = {row.role: row.may_set for row in every(cur)}
        grantees, privileges, tables = (list(column) for column in zip(*GRANTS, strict=True))
        cur.execute(Q["lacking"], {"grantees": grantees, "privileges": privileges, "tables": tables})
        lacking = [Grant(*row) for row in every(cur)]
        cur.execute(Q["rewriting"], {"history": list(HISTORY_TABLES), "roles": list(OF_A_RUN)})
        rewriting = [Grant(*row) for row in every(cur)]
        cur.execute(Q["excess"])
        excess = [row.what for row in every(cur)]
        cur.execute(MIGRATIONS["ledger_exists"])
        exists = one(cur)[0]
    return LedgerFacts(login, _applied(conn, roles) if exists else {}, roles, lacking, rewriting, excess)


def target_facts(cur: cursor, pipeline: Pipeline) -> TargetFacts:
    """Reads the state of the pipeline's table, the first of several in the database."""
    table = next((t.table for t in pipeline.targets if not isinstance(t.table, Iceberg)), None)
    if table is None:
        return TargetFacts(pipeline.first.table, exists=True, logged=True, writable=True)
    schema, name = table.split(".")
    cur.execute(Q["target"], {"schema": schema, "name": name})
    row = maybe(cur)
    if row is None:
        return TargetFacts(table, exists=False, logged=False, writable=False)
    code = foreign_code(cur, [table])
    return TargetFacts(
        table,
        exists=True,
        logged=row.logged,
        writable=row.writable,
        partitions=row.partitions,
        parts=row.parts,
        foreign_code=str(code or ""),
        foreign_remedy=code.remedy if code else "",
        readers=row.readers or "",
        is_older_view=row.is_older_view,
    )


def flow(cur: cursor, pipeline: str) -> Flow:
    """Reads the volume and pace of the newest batches of the live lane."""
    cur.execute(Q["flow"], {"pipeline": pipeline})
    rows = every(cur)
    records = sum(row.records for row in rows)
    size = sum(row.bytes for row in rows) / records if records else None
    long = [row for row in rows if row.seconds and row.seconds >= SHORTEST_PACE]
    cur.execute(Q["past_batches"], {"pipeline": pipeline})
    batches = tuple(PastBatch(int(row.offsets), row.seconds) for row in every(cur))
    past = PastBatches(batches, sum(row.records / row.seconds for row in long) or None, size)
    return Flow(size, max((row.bytes / row.seconds for row in long), default=None), past)


def _applied(conn: connection, roles: dict[str, bool]) -> dict[int, str] | None:
    with transaction(conn, None) as cur:
        cur.execute(Q["may_read_migrations"], {"roles": [role for role, may_set in roles.items() if may_set]})
        row = maybe(cur)
    if row is None:
        return None
    with transaction(conn, row.role) as cur:
        cur.execute(MIGRATIONS["applied"])
        return {row.version: row.checksum for row in every(cur)}
