"""Makes a ledger of an earlier version, as code of that version has left it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.postgres import OWNER, transaction
from lockstep.ledger.migrate import known_migrations, migrate
from lockstep.ledger_version import LEDGER_VERSION_SETTING

if TYPE_CHECKING:
    import pytest
    from psycopg2.extensions import connection


def migrate_below(conn: connection, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Applies the migrations before this one. From then on the session states the version of code that was made for them."""
    older = [migration for migration in known_migrations() if migration.version < version]
    with monkeypatch.context() as before:
        before.setattr("lockstep.ledger.migrate.known_migrations", lambda: older)
        migrate(conn)
    with transaction(conn, OWNER) as cur:
        cur.execute("select set_config(%s, %s, false)", (LEDGER_VERSION_SETTING, str(older[-1].version)))
