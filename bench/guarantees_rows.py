"""Compares the rows of a store with the records that were produced: whole rows, values and batch included."""

from __future__ import annotations

from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import psycopg2

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg2.extensions import cursor

    from stack import Record

COVERED = """select s.partition, lower(c.offsets), upper(c.offsets), c.batch_id
    from lockstep.coverage c join lockstep.stream s using (stream_id) where s.pipeline = %s"""
WAYS = """select distinct route ->> 'way' from lockstep.attempt join lockstep.commit using (batch_id, token)
    join lockstep.batch using (batch_id) where pipeline = %s"""


class Stored(NamedTuple):
    """A row of the store, with the partition in place of its stream's number."""

    partition: int
    offset: int
    ordinal: int
    id: str
    n: int
    batch: int


@dataclass(frozen=True, slots=True)
class Found:
    """Records without their row, rows beyond the first one of a record, and rows that no record has made."""

    lost: int
    doubled: int
    other: int
    as_promised: bool


def judge(cost: str, records: Counter[Stored], rows: Counter[Stored], struck: int) -> Found:
    """Compares the rows with those of the records. `struck` is the batch that died between its two moves.

    As promised is what the cost says of exactly this batch: each of its records lost, or there twice. Every other
    record has one row.
    """
    of_struck = Counter({row: count for row, count in records.items() if row.batch == struck})
    due = {"nothing": records, "lost": records - of_struck, "doubled": records + of_struck}[cost]
    surplus = rows - records
    doubled = sum(count for row, count in surplus.items() if row in records)
    is_seen = rows == due and (cost == "nothing" or bool(of_struck))
    return Found((records - rows).total(), doubled, surplus.total() - doubled, is_seen)


def newest_batch(ledger: str, pipeline: str) -> int:
    """Returns the newest batch of the pipeline."""
    with _reading(ledger) as cur:
        cur.execute("select max(batch_id) from lockstep.batch where pipeline = %s", (pipeline,))
        return int(cur.fetchone()[0])


def committed_by(ledger: str, pipeline: str) -> list[str]:
    """Returns the engines that have read what is committed."""
    with _reading(ledger) as cur:
        cur.execute(WAYS, (pipeline,))
        return [way for (way,) in cur.fetchall()]


def rows_due(ledger: str, pipeline: str, topic: Counter[Record]) -> Counter[Stored]:
    """Returns the row that each record should have. Its batch is the one that has committed its offset, or 0."""
    with _reading(ledger) as cur:
        cur.execute(COVERED, (pipeline,))
        segments = cur.fetchall()
    batches = {(part, offset): batch for part, low, high, batch in segments for offset in range(low, high)}
    due: Counter[Stored] = Counter()
    for (part, offset, id_, n), count in topic.items():
        due[Stored(part, offset, 0, id_, n, batches.get((part, offset), 0))] += count
    return due


def rows_of(ledger: str, store: str, pipeline: str) -> Counter[Stored]:
    """Returns the rows of the pipeline's table in the store, which may be the ledger's database."""
    with _reading(ledger) as cur:
        cur.execute("select stream_id, partition from lockstep.stream where pipeline = %s", (pipeline,))
        partitions = dict(cur.fetchall())
    with _reading(store, role="lockstep_reader" if store == ledger else None) as cur:
        cur.execute(f"select _stream, _offset, _ordinal, id, n, _batch from public.{pipeline}")
        return Counter(Stored(partitions[stream], *rest) for stream, *rest in cur.fetchall())


@contextmanager
def _reading(address: str, role: str | None = "lockstep_reader") -> Iterator[cursor]:
    with closing(psycopg2.connect(address)) as conn, conn.cursor() as cur:
        if role:
            cur.execute(f"set role {role}")
        yield cur
