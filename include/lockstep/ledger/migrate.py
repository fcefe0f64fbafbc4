"""Applies the ledger's migrations: numbered, checksummed, each once, all under one lock."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

import psycopg2
from psycopg2 import errors, sql

from lockstep.adapters.postgres import OWNER, READER, transaction
from lockstep.adapters.postgres_words import last_line
from lockstep.core.errors import MIGRATE, BadDefinition, Refusal
from lockstep.core.lake.iceberg import Iceberg
from lockstep.core.pipeline.guarantees import commit_unit
from lockstep.core.pipeline.stores import BEHIND
from lockstep.core.pipeline.targets import Send
from lockstep.core.states import CommitUnit
from lockstep.ledger.admin.author import run_as_author, take_over_table, wait_for_others, written_by_runs
from lockstep.ledger.admin.shown_view import draw_view
from lockstep.ledger.changes.owners import register
from lockstep.ledger.feed.make import make_feeds
from lockstep.ledger.feed.sends import tables_of_sends
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import in_database, table_name
from lockstep.ledger.rows import every, one
from lockstep.ledger.version import require_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import connection, cursor

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.folder import PipelineFolder

Q = queries("lockstep.ledger", "roles")
MIGRATION_LOCK_SECONDS = 60
LEDGER_ROLES = (
    "lockstep_owner",
    "lockstep_targets",
    "lockstep_planner",
    "lockstep_stager",
    "lockstep_committer",
    "lockstep_partition",
    "lockstep_reader",
    "lockstep_executor",
    "lockstep_judge",
)


@dataclass(frozen=True, slots=True, order=True)
class Migration:
    """One numbered file of SQL."""

    version: int
    name: str
    statements: str

    @property
    def checksum(self) -> str:
        """Returns the hash of the statements. An applied file must never change it."""
        return hashlib.sha256(self.statements.encode()).hexdigest()


def known_migrations() -> list[Migration]:
    """Returns the migrations of this code, in order."""
    folder = files("lockstep.ledger").joinpath("migrations")
    return sorted(
        Migration(int(file.name[:4]), file.name[5:].removesuffix(".sql"), file.read_text(encoding="utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    )


def migrate(conn: connection) -> list[Migration]:
    """Brings the ledger to this code's version and returns the applied migrations. A second call applies nothing."""
    try:
        return _migrate(conn)
    except errors.InsufficientPrivilege as error:
        raise Refusal(
            f"this login may not migrate: {last_line(error)}; it needs CREATEROLE and CREATE on the database",
            next_command=MIGRATE,
        ) from None


def require_migrated(conn: connection) -> None:
    """Refuses a ledger that is older or newer than this code."""
    with transaction(conn, None) as cur:
        cur.execute(Q["ledger_exists"])
        exists = one(cur)[0]
    found = 0
    if exists:
        with transaction(conn, READER) as cur:
            cur.execute(Q["applied"])
            found = max((row.version for row in cur.fetchall()), default=0)
    require_version(found)


def migrate_target(
    conn: connection,
    folder: PipelineFolder,
    own_login: str | None = None,
    columns: Sequence[Sequence[Column]] | None = None,
) -> list[str]:
    """Runs the pipeline's target.sql as the targets' owner, and grants the committer what publishing takes.

    Returns the tables with rows whose feed begins now.

    `own_login` is the DSN that target.sql runs over. Without one, a login is made for it. `columns` are those that reach
    each target, if a transform gives others than are decoded.
    """
    pipeline = folder.pipeline
    needs_sql = [t for t in pipeline.targets if not isinstance(t, Send) and not isinstance(t.table, Iceberg)]
    if folder.target_sql is None and needs_sql:
        raise BadDefinition(f"{pipeline.name}: {folder.path.name}/target.sql is missing")
    require_migrated(conn)
    tables = [target.table for target in pipeline.targets if not isinstance(target.table, Iceberg)]
    with transaction(conn, OWNER) as cur:
        register(cur, pipeline)
        for table in tables:
            take_over_table(cur, pipeline.name, table)
        written = sorted(written_by_runs(cur) | set(tables))
        ddl = tables_of_sends(cur, pipeline, columns or [pipeline.columns for _ in pipeline.targets])
    run_as_author(conn, pipeline.name, ddl + (folder.target_sql or ""), written, own_login, pipeline.targets)
    table = ""
    with transaction(conn, OWNER) as cur:
        wait_for_others(cur)
        draw_view(cur, pipeline)
        try:
            for table in tables:
                identifier = table_name(table)
                cur.execute(sql.SQL(Q["grant_target"]).format(target=identifier))
                if commit_unit(pipeline.guarantee) == CommitUnit.STREAM:
                    cur.execute(sql.SQL(Q["grant_target_to_tasks"]).format(target=identifier))
                _grant_sequences(cur, table)
        except psycopg2.ProgrammingError as error:
            raise BadDefinition(
                f"{pipeline.name}: target.sql does not give a table {table}: {str(error).splitlines()[0]}",
                next_command=f"{MIGRATE} {pipeline.name}",
            ) from None
        return make_feeds(cur, pipeline)


def _grant_sequences(cur: cursor, table: str) -> None:
    """Lets who inserts take numbers for a `serial` column. An identity needs no right."""
    cur.execute(Q["sequences_of_target"], {"table": in_database(table), "rows_table": in_database(table + BEHIND)})
    for row in every(cur):
        cur.execute(sql.SQL(Q["grant_sequence"]).format(sequence=sql.SQL(row.name)))


def _migrate(conn: connection) -> list[Migration]:
    with transaction(conn, None, lock_seconds=MIGRATION_LOCK_SECONDS) as cur:
        cur.execute(Q["lock_migrations"])
        for role in LEDGER_ROLES:
            cur.execute(sql.SQL(Q["create_role"]).format(role=sql.Identifier(role)))
            cur.execute(sql.SQL(Q["join_role"]).format(role=sql.Identifier(role)))
        cur.execute(Q["hold_deciders"])
        cur.execute(Q["create_schemas"])
        cur.execute(Q["applied"])
        applied = {row.version: row for row in cur.fetchall()}
        pending = []
        for migration in known_migrations():
            row = applied.get(migration.version)
            if row is None:
                pending.append(migration)
            elif row.checksum != migration.checksum:
                raise Refusal(
                    f"migration {migration.version:04} ({row.name}) was applied with other content than this code has"
                )
        cur.execute("select set_config('role', %s, true), set_config('search_path', 'lockstep', true)", (OWNER,))
        for migration in pending:
            cur.execute(migration.statements)
            cur.execute(
                Q["record_migration"],
                {"version": migration.version, "name": migration.name, "checksum": migration.checksum},
            )
    return pending
