"""Searches for a secret where it could leak: in command lines, environments, files and databases."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

import psycopg2


class Watch:
    """A repeated look at every process while a block runs, or several. A subclass says what to record of each."""

    def __enter__(self) -> Self:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            for process in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    self.note(process)

    def note(self, process: Path) -> None:
        raise NotImplementedError


class CommandLines(Watch):
    """The command lines of all processes that were seen."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()

    def note(self, process: Path) -> None:
        self.seen.add((process / "cmdline").read_bytes())

    def holding(self, secret: str) -> list[bytes]:
        return [line for line in self.seen if secret.encode() in line]


class Environments(Watch):
    """The environments of processes that have a mark in theirs, by command line."""

    def __init__(self, mark: str) -> None:
        self.seen: dict[str, bytes] = {}
        self._mark = mark.encode()

    def note(self, process: Path) -> None:
        environ = (process / "environ").read_bytes()
        if self._mark in environ:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            # A process that becomes another program has no command line for a moment, and then another environment.
            if command and (process / "environ").read_bytes() == environ:
                self.seen[command] = environ

    def holding(self, secret: str) -> list[str]:
        return [command for command, environ in self.seen.items() if secret.encode() in environ]


def files_holding(secret: str, *folders: Path) -> list[Path]:
    """Returns the files below these folders that contain the secret."""
    found = []
    for folder in folders:
        for file in folder.rglob("*"):
            with suppress(OSError):
                if file.is_file() and secret.encode() in file.read_bytes():
                    found.append(file)
    return found


def tables_holding(secret: str, dsn: str, *schemas: str) -> list[str]:
    """Returns the tables of these schemas with the secret in any column of any row."""
    conn = psycopg2.connect(dsn)
    with conn, conn.cursor() as cur:
        cur.execute(
            "select format('%%I.%%I', schemaname, tablename) from pg_tables where schemaname = any(%s)",
            (list(schemas),),
        )
        tables = [row[0] for row in cur.fetchall()]
        assert tables, schemas
        found = []
        for table in tables:
            # Bytes show as hexadecimal digits.
            cur.execute(
                f"select count(*) from {table} t where t::text like %s or t::text like %s",
                (f"%{secret}%", f"%{secret.encode().hex()}%"),
            )
            if cur.fetchone()[0]:
                found.append(table)
    conn.close()
    return found
