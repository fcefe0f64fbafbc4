"""Holds what an archived file looks like: messages become rows of Parquet, and rows become the same messages."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Message

from lockstep.adapters.kafka.reading import record_headers, size_of
from lockstep.core.proof.accounting import Digest
from lockstep.core.records import LAST_STAMP
from lockstep.core.retention.archive import ArchivedFile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lockstep.core.offsets import OffsetRange

ROWS_PER_GROUP = 10_000
COMPRESSION = "zstd"
# All that Kafka gives of a record. Timestamps are milliseconds, and their type is Kafka's number.
_HEADER = pa.struct([("key", pa.binary()), ("value", pa.binary())])
ARCHIVE_SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("timestamp_type", pa.int8()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(_HEADER)),
    ]
)


def archive_rows(messages: Sequence[Message]) -> pa.RecordBatch:
    """Returns messages as rows of a file."""
    stamps = [message.timestamp() for message in messages]
    columns = [
        pa.array([message.offset() for message in messages], pa.int64()),
        pa.array([stamp for _, stamp in stamps], pa.int64()),
        pa.array([kind for kind, _ in stamps], pa.int8()),
        pa.array([message.key() for message in messages], pa.binary()),
        pa.array([message.value() for message in messages], pa.binary()),
        pa.array([_headers(message) for message in messages], pa.list_(_HEADER)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARCHIVE_SCHEMA)


def messages_in(rows: pa.RecordBatch, offsets: OffsetRange) -> list[Message]:
    """Returns the messages that rows of a file were made of."""
    where = offsets.topic_partition
    return [
        Message(
            topic=where.topic,
            partition=where.partition,
            offset=row["offset"],
            key=row["key"],
            value=row["value"],
            headers=None
            if row["headers"] is None
            else [(each["key"].decode("utf-8", "surrogatepass"), each["value"]) for each in row["headers"]],
            timestamp=(row["timestamp_type"], row["timestamp"]),
        )
        for row in rows.to_pylist()
    ]


def hashed(messages: Sequence[Message], into: hashlib._Hash) -> None:
    """Adds all that Kafka gives of these messages to a hash. It compares both sides of a copy."""
    for message in messages:
        said = (message.offset(), message.timestamp(), message.key(), message.value(), _headers(message))
        into.update(repr(said).encode())


def _headers(message: Message) -> list[dict[str, bytes | None]] | None:
    found = record_headers(message)
    if found is None:
        return None
    return [{"key": name.encode("utf-8", "surrogatepass"), "value": value} for name, value in found]


class FileWriter:
    """A local file that records are added to, with what is known of them. `said` hashes what Kafka gave."""

    def __init__(self, path: Path, from_offset: int) -> None:
        self.size = 0
        self.newest: datetime | None = None
        self.said = hashlib.sha256()
        self._digest = Digest()
        self._path, self._from_offset = path, from_offset
        self._rows: list[Message] = []
        self._writer = pq.ParquetWriter(path, ARCHIVE_SCHEMA, compression=COMPRESSION)

    def add(self, message: Message) -> None:
        """Adds a record."""
        self.size += size_of(message)
        self._rows.append(message)
        stamp = message.timestamp()[1]
        if stamp >= 0:
            moment = datetime.fromtimestamp(min(stamp, LAST_STAMP) / 1000, UTC)
            self.newest = max(self.newest or moment, moment)
        if len(self._rows) == ROWS_PER_GROUP:
            self._flush(self._rows)

    def closed(self, offsets: OffsetRange, path: str) -> ArchivedFile:
        """Closes the file and returns what it must be from now on."""
        self._flush(self._rows)
        self._writer.close()
        with self._path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return ArchivedFile(offsets, path, self._digest.n, (self._digest.sum, self._digest.squares), sha256)

    def _flush(self, rows: Sequence[Message]) -> None:
        if rows:
            self._writer.write_batch(archive_rows(rows))
            hashed(rows, self.said)
            self._digest += Digest.of([message.offset() for message in rows], self._from_offset)
        self._rows = []
