"""Finds the first record whose rows a target refuses, by halving, in savepoints that are rolled back."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from psycopg2 import sql

from lockstep.adapters.postgres_errors import StatementRefused, server_refusals
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg2.extensions import cursor

    from lockstep.targets.rows import Rows

Q = queries("lockstep.targets.table", "refused")


class RefusedRecord(NamedTuple):
    """A record that a target refuses: its stream, topic, partition and offset."""

    stream_id: int
    topic: str
    partition: int
    offset: int

    @property
    def shown(self) -> str:
        """Returns the record as a message names it: `orders-3 offset 17`."""
        return f"{self.topic}-{self.partition} offset {self.offset}"


def counted(cur: cursor, rows: Rows) -> Rows:
    """Returns the rows with their number."""
    return replace(rows, count=_records(cur, rows)[1])


def first_refused(cur: cursor, rows: Rows, publish: Callable[[Rows], object]) -> RefusedRecord | None:
    """Returns the first record that is refused, or None if all are taken.

    Those before it are taken, and with it they are refused. Leaves nothing of what `publish` writes.
    """
    taken, refused = 0, _records(cur, rows)[0]
    if not refused or not _is_refused(cur, rows, publish):
        return None
    while refused - taken > 1:
        middle = (taken + refused) // 2
        if _is_refused(cur, _up_to(cur, rows, _record(cur, rows, middle)), publish):
            refused = middle
        else:
            taken = middle
    return _record(cur, rows, refused)


def _is_refused(cur: cursor, rows: Rows, publish: Callable[[Rows], object]) -> bool:
    with undone(cur):
        try:
            with server_refusals():
                publish(rows)
        except StatementRefused:
            return True
    return False


@contextmanager
def undone(cur: cursor) -> Iterator[None]:
    """Takes back what the block writes, also where the database has refused it."""
    cur.execute(Q["begin_trial"])
    try:
        yield
    finally:
        cur.execute(Q["end_trial"])


def _records(cur: cursor, rows: Rows) -> tuple[int, int]:
    cur.execute(sql.SQL(Q["records"]).format(rows=rows.source))
    found = one(cur)
    return found.records, found.rows


def _record(cur: cursor, rows: Rows, number: int) -> RefusedRecord:
    cur.execute(sql.SQL(Q["record_at"]).format(rows=rows.source), {"number": number - 1})
    row = one(cur)
    return RefusedRecord(row.stream_id, row.topic, row.partition, row.offset)


def _up_to(cur: cursor, rows: Rows, record: RefusedRecord) -> Rows:
    parts = {"stream_id": sql.Literal(record.stream_id), "offset": sql.Literal(record.offset)}
    return counted(cur, replace(rows, source=sql.SQL(Q["up_to"]).format(rows=rows.source, **parts)))
