"""Reads the target beside a storm, in snapshots that stay open while others commit."""

from __future__ import annotations

import random
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import psycopg2

from lockstep.adapters.postgres import READER, connect, snapshot
from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from types import TracebackType

ROWS = "select _stream, _batch, count(*) from public.house group by 1, 2"
OWNED = """select g.stream_id, g.batch_id, u.rows from lockstep.segment g
join lockstep.result u using (batch_id, token, stream_id) where u.rows > 0"""
NEWEST = "select count(*) from lockstep.commit"
APART_SECONDS = 3.0  # a swap of the ledger's database copies it, and waits for no reader


@dataclass
class Onlooker:
    """A reader of its own thread. In each snapshot, the rows of each batch are those that its commit has told.

    `looks` are its snapshots, and `beside` those during which a batch was committed.
    """

    dsn: str
    looks: int = 0
    beside: int = 0
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read_on, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _read_on(self) -> None:
        while not self._over.is_set():
            try:
                with closing(connect(self.dsn, name="onlooker")) as conn, closing(connect(self.dsn)) as other:
                    other.autocommit = True
                    while not self._over.is_set() and not self.faults:
                        self._look(conn, other)
            except (Refusal, psycopg2.Error):  # the server was stopped, or the database swapped
                self._over.wait(APART_SECONDS)

    def _look(self, conn: Any, other: Any) -> None:
        before = _asked(other.cursor(), NEWEST)
        with snapshot(conn, READER) as cur:
            first = _asked(cur, ROWS)
            time.sleep(random.random() * 0.1)  # noqa: S311 - others commit meanwhile
            owned, again = _asked(cur, OWNED), _asked(cur, ROWS)
        self.looks += 1
        self.beside += _asked(other.cursor(), NEWEST) != before
        if not first == owned == again:
            self.faults.append(f"seen {first - owned}, missed {owned - first}, changed {first ^ again}")


def _asked(cur: Any, query: str) -> set[tuple[int, ...]]:
    cur.execute(query)
    return {tuple(row) for row in cur.fetchall()}
