"""Makes a ledger that has just been migrated, on a separate Postgres."""

from __future__ import annotations

import re
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg2

from lockstep.adapters.postgres import connect, transaction
from lockstep.dev.servers import postgres
from lockstep.ledger.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def fresh_ledger() -> Iterator[Any]:
    """Yields a cursor in a migrated database. The server is removed when the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        try:
            server = postgres.start(home)
            with closing(psycopg2.connect(server.superuser_dsn)) as admin:
                admin.autocommit = True
                admin.cursor().execute("create database fresh owner lockstep")
            with closing(connect(re.sub(r"/\w+$", "/fresh", server.dsn))) as conn:
                migrate(conn)
                with transaction(conn, None) as cur:
                    yield cur
        finally:
            postgres.remove_server(home)
