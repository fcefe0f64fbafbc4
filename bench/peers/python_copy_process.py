"""Runs one process of the Python peer that copies.

It reads its partitions to their ends, and writes rows, rejects and offsets together. It takes a share as a line of JSON on
standard input. It answers with a line: the number of rows that it has written.
"""

from __future__ import annotations

import io
import json
import sys
import traceback
from contextlib import closing
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec
import psycopg2
from confluent_kafka import Consumer, TopicPartition

from peers.copy_text import escaped
from peers.limits import TUNED, is_end
from peers.workload import ORIGIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import ModuleType

    from confluent_kafka import Message

AT_ONCE, SECONDS_TO_WAIT, BUFFER_BYTES = 10_000, 0.02, 1 << 18
COPY = "copy {table} ({columns}) from stdin"
BROUGHT = """insert into public.{table} ({columns}) select {columns} from {table}_copied
on conflict (id) do update set {assigned}"""
TEMPORARY = "create temporary table {table}_copied (like public.{table} including defaults) on commit delete rows"
POSITIONS = "select partition, next_offset from public.{table}_offsets where partition = any(%s)"
MOVE = "update public.{table}_offsets set next_offset = %s where partition = %s and next_offset = %s"
REJECT_COLUMNS = (*ORIGIN, "reason", "value")


@dataclass(frozen=True, slots=True)
class Share:
    """The partitions of one process.

    A transaction takes `rows` records, rounded up to a read. `lines` is the module that decodes them.
    """

    bootstrap: str
    dsn: str
    topic: str
    table: str
    partitions: tuple[int, ...]
    is_upsert: bool
    rows: int
    lines: str

    @property
    def codec(self) -> ModuleType:
        """Returns the module with the columns of a row, the decoder of a record, and the line that it becomes."""
        return import_module(self.lines)


@dataclass(slots=True)
class Transaction:
    """Lines that wait for the commit, the newest of each key where keys replace, and the offsets after them."""

    share: Share
    lines: dict[str, str] = field(default_factory=dict)
    rejects: list[str] = field(default_factory=list)
    reached: dict[int, int] = field(default_factory=dict)
    rows: int = 0

    def take(self, messages: Iterable[Message], cur: Any) -> None:
        """Turns records into COPY's lines. Sends appends at once, and keeps upserts for the newest of their key."""
        codec, lines = self.share.codec, list[str]()
        decode, line_of = codec.DECODE, codec.line_of
        for message in messages:
            partition, offset = message.partition(), message.offset()
            self.reached[partition] = offset + 1
            self.rows += 1
            try:
                record = decode(message.value())
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                self.rejects.append(reject_of(message, error))
                continue
            line = line_of(record, partition, offset)
            if self.share.is_upsert:
                self.lines[record.id] = line
            else:
                lines.append(line)
        if lines:
            copied(cur, f"public.{self.share.table}", codec.COLUMNS, lines)

    def bring(self, cur: Any, positions: Mapping[int, int]) -> None:
        """Replaces rows by key, keeps rejects, and moves the offsets. Refuses to move one that another has moved."""
        if self.lines:
            columns = self.share.codec.COLUMNS
            assigned = ", ".join(f"{name} = excluded.{name}" for name in columns if name != "id")
            copied(cur, f"{self.share.table}_copied", columns, self.lines.values())
            cur.execute(BROUGHT.format(table=self.share.table, columns=", ".join(columns), assigned=assigned))
        if self.rejects:
            copied(cur, f"public.{self.share.table}_rejects", REJECT_COLUMNS, self.rejects)
        for partition, reached in self.reached.items():
            cur.execute(MOVE.format(table=self.share.table), (reached, partition, positions[partition]))
            if cur.rowcount != 1:
                raise ValueError(f"{self.share.topic}-{partition}: another process has moved {positions[partition]}")


def copied(cur: Any, table: str, columns: Iterable[str], lines: Iterable[str]) -> None:
    """Runs one COPY of lines that are ready."""
    cur.copy_expert(COPY.format(table=table, columns=", ".join(columns)), io.StringIO("".join(lines)), BUFFER_BYTES)


def reject_of(message: Message, error: Exception) -> str:
    """Returns a line of the rejects: the record's place, the reason, and its bytes."""
    return f"{message.partition()}\t{message.offset()}\t{escaped(str(error))}\t\\\\x{message.value().hex()}\n"


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
