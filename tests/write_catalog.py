"""Writes ledger/catalog.txt anew from a database that has just been migrated; `make catalog` calls it."""

from __future__ import annotations

import re
import tempfile
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import psycopg2

from lockstep.adapters.postgres import connect, transaction
from lockstep.dev import postgres
from lockstep.ledger import catalog
from lockstep.ledger.migrate import migrate


def main() -> None:
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
                    text = catalog.written(catalog.found(cur))
        finally:
            postgres.remove(home)
    path = Path(str(files("lockstep.ledger"))) / "catalog.txt"
    path.write_text(text)
    print(f"{path.name}: {len(text.splitlines()) - 1} objects")


if __name__ == "__main__":
    main()
