"""Runs one process of the Python peer that copies.

It reads its partitions to their ends, and writes rows and offsets together. It takes a share as a line of JSON on
standard input. It answers with a line: the number of rows that it has written.
"""

from __future__ import annotations

import io
import json
import sys
import traceback
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import psycopg2
from confluent_kafka import Consumer, TopicPartition

from peers.limits import TUNED, is_end
from peers.records import NAMES, ORIGIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from confluent_kafka import Message

AT_ONCE, SECONDS_TO_WAIT, BUFFER_BYTES = 10_000, 0.02, 1 << 18
COLUMNS = (*NAMES, *ORIGIN)
COPY = f"copy {{table}} ({', '.join(COLUMNS)}) from stdin"
BROUGHT = f"""insert into public.{{table}} ({", ".join(COLUMNS)}) select {", ".join(COLUMNS)} from {{table}}_copied
on conflict (id) do update set {", ".join(f"{name} = excluded.{name}" for name in COLUMNS if name != "id")}"""
TEMPORARY = "create temporary table {table}_copied (like public.{table} including defaults) on commit delete rows"
POSITIONS = "select partition, next_offset from public.{table}_offsets where partition = any(%s)"
MOVE = "update public.{table}_offsets set next_offset = %s where partition = %s and next_offset = %s"
ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


class Order(msgspec.Struct, gc=False):
    """A record's value, typed, so that a record of another shape is refused."""

    id: str
    seq: int
    part: int
    customer: str
    amount: float  # exact up to 15 digits, and the column has twelve
    quantity: int
    paid: bool
    placed_at: str


DECODE = msgspec.json.Decoder(Order).decode


@dataclass(frozen=True, slots=True)
class Share:
    """The partitions of one process, with their first and last offsets.

    A transaction takes `rows` rows, rounded up to a read.
    """

    bootstrap: str
    dsn: str
    topic: str
    table: str
    partitions: tuple[int, ...]
    is_upsert: bool
    rows: int


@dataclass(slots=True)
class Transaction:
    """Lines that wait for the commit, the newest of each key where keys replace, and the offsets after them."""

    share: Share
    lines: dict[str, str] = field(default_factory=dict)
    reached: dict[int, int] = field(default_factory=dict)
    rows: int = 0

    def take(self, messages: Iterable[Message], cur: Any) -> None:
        """Turns records into COPY's lines. Sends appends at once, and keeps upserts for the newest of their key."""
        lines = []
        for message in messages:
            partition, offset = message.partition(), message.offset()
            order = DECODE(message.value())
            line = line_of(order, partition, offset)
            if self.share.is_upsert:
                self.lines[order.id] = line
            else:
                lines.append(line)
            self.reached[partition] = offset + 1
            self.rows += 1
        if lines:
            copied(cur, f"public.{self.share.table}", lines)

    def bring(self, cur: Any, positions: Mapping[int, int]) -> None:
        """Replaces rows by key, and moves the offsets. Refuses to move one that another has moved."""
        if self.lines:
            copied(cur, f"{self.share.table}_copied", self.lines.values())
            cur.execute(BROUGHT.format(table=self.share.table))
        for partition, reached in self.reached.items():
            cur.execute(MOVE.format(table=self.share.table), (reached, partition, positions[partition]))
            if cur.rowcount != 1:
                raise ValueError(f"{self.share.topic}-{partition}: another process has moved {positions[partition]}")


def copied(cur: Any, table: str, lines: Iterable[str]) -> None:
    """Runs one COPY of lines that are ready."""
    cur.copy_expert(COPY.format(table=table), io.StringIO("".join(lines)), BUFFER_BYTES)


def line_of(order: Order, partition: int, offset: int) -> str:
    """Returns a line of COPY's text format, with the record's origin."""
    return (
        f"{escaped(order.id)}\t{order.seq}\t{order.part}\t{escaped(order.customer)}\t{order.amount}\t{order.quantity}\t"
        f"{order.paid}\t{escaped(order.placed_at)}\t{partition}\t{offset}\n"
    )


def escaped(text: str) -> str:
    """Returns text as COPY reads it back. Most texts have nothing to escape."""
    return text.translate(ESCAPES) if not text.isprintable() or "\\" in text else text


def work(share: Share) -> int:
    """Reads from the committed offsets to each partition's end. Returns the number of records."""
    written = 0
    consumer = Consumer(
        {"bootstrap.servers": share.bootstrap, "group.id": share.table, "auto.offset.reset": "error"} | TUNED
    )
    with closing(psycopg2.connect(share.dsn)) as conn:
        with conn, conn.cursor() as cur:
            if share.is_upsert:
                cur.execute(TEMPORARY.format(table=share.table))
            cur.execute(POSITIONS.format(table=share.table), (list(share.partitions),))
            positions: dict[int, int] = dict(cur.fetchall())
        consumer.assign([TopicPartition(share.topic, partition, at) for partition, at in positions.items()])
        left = set(share.partitions)
        while left:
            transaction = Transaction(share)
            with conn, conn.cursor() as cur:
                while left and transaction.rows < share.rows:
                    transaction.take(_read(consumer, left), cur)
                transaction.bring(cur, positions)
            positions |= transaction.reached
            written += transaction.rows
    consumer.close()
    return written


def _read(consumer: Consumer, left: set[int]) -> list[Message]:
    """Returns some records. Removes partitions that have come to their end from `left`."""
    messages = consumer.consume(AT_ONCE, SECONDS_TO_WAIT)
    ends = [message for message in messages if is_end(message.error())]
    left -= {message.partition() for message in ends}
    return [message for message in messages if message.error() is None] if ends else messages


def main() -> None:
    """Prints that it is up, and answers until standard input is closed."""
    print(json.dumps({"rows": 0}), flush=True)
    for line in sys.stdin:
        known = json.loads(line)
        try:
            answer = {"rows": work(Share(**known | {"partitions": tuple(known["partitions"])}))}
        except Exception as error:  # noqa: BLE001 - told to whoever asked
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {str(error).strip()[:300]}"}  # type: ignore[dict-item]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
