"""Starts a Postgres of this process's own, with a migrated ledger, and removes it when the process ends."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from contextlib import closing, contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import connect
from lockstep.adapters.processes import is_gone, this_owner
from lockstep.dev.servers import postgres
from lockstep.ledger.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER_PREFIX, SCRATCH_OWNER = "lockstep-try-", "owner"
DATABASE_NUMBERS = count(1)


@contextmanager
def scratch_ledger() -> Iterator[str]:
    """Yields the DSN of a database with an empty ledger. The first one starts the server. Drops it behind the block."""
    template = _template()
    name = f"try_{next(DATABASE_NUMBERS)}"
    _do(template, f"create database {name} template lockstep strategy file_copy")
    try:
        yield _of(template, name)
    finally:
        # Not with (force), which is refused while autovacuum looks at the database. Without it, Postgres sends that away.
        ours = f"from pg_stat_activity where datname = '{name}' and backend_type = 'client backend'"
        _do(template, f"select pg_terminate_backend(pid) {ours}")
        _do(template, f"drop database {name}")


@cache
def _template() -> str:
    """Returns the DSN of the migrated database, on a server that lives as long as this process."""
    _sweep()
    home = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
    (home / SCRATCH_OWNER).write_text(this_owner(), encoding="utf-8")
    maker = os.getpid()
    # A forked child leaves the server alone.
    atexit.register(lambda: _remove(home) if os.getpid() == maker else None)
    dsn = postgres.start(home).dsn
    with closing(connect(dsn)) as conn:
        migrate(conn)
    return dsn


def _sweep() -> None:
    """Removes the servers of processes that were killed."""
    for home in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        with suppress(OSError):
            if home.lstat().st_uid == os.geteuid() and is_gone((home / SCRATCH_OWNER).read_text(encoding="utf-8")):
                _remove(home)


def _remove(home: Path) -> None:
    postgres.remove_server(home)
    shutil.rmtree(home, ignore_errors=True)


def _do(dsn: str, statement: str) -> None:
    with closing(connect(_of(dsn, "postgres"))) as conn:
        conn.autocommit = True
        with conn.cursor() as cur:
            cur.execute(statement)


def _of(dsn: str, database: str) -> str:
    return f"{dsn.rpartition('/')[0]}/{database}"
