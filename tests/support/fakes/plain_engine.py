"""Provides an engine without Spark: it reads ranges with one consumer and stages them by COPY."""

from __future__ import annotations

import io
import json
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg2
import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

from lockstep.adapters.connection.dsn import staging_dsn
from lockstep.adapters.connection.opened import open_stager
from lockstep.adapters.postgres_words import last_line
from lockstep.core.engine import RangeOutcome, RangeTask
from lockstep.core.errors import BadData, Unreachable
from lockstep.core.planning.routes import Route, Way
from lockstep.core.proof.accounting import Digest, ManifestLine
from lockstep.core.records import RESERVED_COLUMNS
from lockstep.core.staging import STAGING_SCHEMA
from lockstep.core.states import RangeEnd
from lockstep.engine.sinks.range_rows import RangeRows
from lockstep.formats.values import arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockstep.core.engine import Sink
    from lockstep.core.figures import Application, Figures
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.staging import StageWork

PATIENCE = 10.0
RESERVED_TYPES = {
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "timestamptz": pa.timestamp("us", "UTC"),
    "boolean": pa.bool_(),
    "text": pa.string(),
    "bytea": pa.binary(),
}


def pieces(text: str, columns: Sequence[Column], number: int) -> list[pa.RecordBatch]:
    """Returns lines of COPY's text format as rows of a staging table.

    The lines have no escapes. The rows come in so many pieces, none of them empty.
    """
    rows = [[None if f == "\\N" else f.replace("\\\\", "\\") for f in line.split("\t")] for line in text.splitlines()]
    types = [RESERVED_TYPES[type_] for _, type_ in RESERVED_COLUMNS] + [arrow_type(column) for column in columns]
    arrays = [_typed(list(fields), type_) for fields, type_ in zip(zip(*rows, strict=True), types, strict=True)]
    names = [*(name for name, _ in RESERVED_COLUMNS), *(column.name for column in columns)]
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    size = max(1, -(-len(rows) // number))
    return [batch.slice(i, size) for i in range(0, len(rows), size)]


def _typed(fields: list[str | None], type_: pa.DataType) -> pa.Array:
    if pa.types.is_binary(type_):
        return pa.array(
            [None if field is None else bytes.fromhex(field.removeprefix("\\x")) for field in fields], type_
        )
    return pa.array(fields, pa.string()).cast(type_)


class PlainEngine:
    """An engine that reads JSON objects. Any other record, and every value that is not an object, is a reject.

    `change` is the pipeline's code. It is applied to each decoded record. None filters it, and a ValueError
    rejects it. Each of several targets gets the same rows. Rejects go into the first one's table.
    """

    def __init__(
        self, folder: PipelineFolder, kafka: str, dsn: str, change: Callable[[dict], dict | None] = lambda v: v
    ) -> None:
        self.change = change
        self.folder = folder
        self.kafka = kafka
        self.dsn = dsn
        self.cancelled = False

    def route(self) -> Route:
        return Route(Way.PROCESS, "a reader of the tests")

    def application(self, _work: StageWork) -> Application | None:
        return None

    def figures(self, _work: StageWork) -> Figures | None:
        return None

    def columns(self, place: int = 0) -> tuple[Column, ...]:
        assert place < len(self.folder.pipeline.targets)
        return self.folder.pipeline.format.columns

    def cancel(self) -> None:
        self.cancelled = True

    def read(self, work: StageWork, sink: Sink[Any]) -> tuple[Any, ...]:
        assert not work.archived, "this reader knows no archive"
        return self._commit(work, sink) if isinstance(sink, RangeTask) else self._stage(work)

    def _stage(self, work: StageWork) -> tuple[ManifestLine, ...]:
        consumer = self._consumer()
        try:
            rows = io.StringIO()
            lines = [self._read_one(consumer, item, rows) for item in work.ranges]
        finally:
            consumer.close()
        good = [line for line in rows.getvalue().splitlines(keepends=True) if line.split("\t")[6] == "\\N"]
        try:
            dsn = staging_dsn(self.dsn, work.stager)
            with closing(open_stager(dsn)) as conn, conn, conn.cursor() as cur:
                for place, (table, _) in enumerate(work.tables):
                    staged = io.StringIO("".join(good) if place else rows.getvalue())
                    cur.copy_expert(f"copy {STAGING_SCHEMA}.{table} from stdin", staged)
        except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
            raise Unreachable(last_line(error)) from None
        except psycopg2.DatabaseError as error:
            raise BadData(last_line(error)) from None
        return tuple(line for line in lines if line.delivered)

    def _commit(self, work: StageWork, task: RangeTask) -> tuple[RangeOutcome, ...]:
        """Commits like one Spark task with every range: one after another, each range's rows in two pieces."""
        outcomes = []
        consumer = self._consumer()
        try:
            with task.session() as session:
                for item in work.ranges:
                    if session.is_committed(item.stream_id):
                        outcomes.append(RangeOutcome(item.stream_id, RangeEnd.FOUND))
                        continue
                    rows = io.StringIO()
                    line = self._read_one(consumer, item, rows)
                    if not line.delivered:
                        continue
                    made = RangeRows(session, item.stream_id, task.attempt.batch_id)
                    for piece in pieces(rows.getvalue(), self.columns(), 2):
                        made.take(piece)
                    outcomes.append(made.commit(line))
        finally:
            consumer.close()
        return tuple(outcomes)

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.kafka,
                "group.id": "plain-engine",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
            }
        )

    def _read_one(self, consumer: Consumer, item, rows: io.StringIO) -> ManifestLine:
        range_ = item.offsets
        where = TopicPartition(range_.topic_partition.topic, range_.topic_partition.partition, range_.from_offset)
        consumer.assign([where])
        offsets, times, size = [], [], 0
        became: Counter[str] = Counter()
        while True:
            message = consumer.poll(PATIENCE)
            if message is None:
                raise Unreachable(f"no answer while reading {range_}")
            if message.error():
                break  # the end of the partition: nothing visible is left below it
            if message.offset() >= range_.until_offset:
                break
            offsets.append(message.offset())
            times.append(datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC))
            size += len(message.value() or b"") + len(message.key() or b"")
            became[self._write(rows, item.stream_id, message)] += 1
            if message.offset() == range_.until_offset - 1:
                break
        n, targets = len(offsets), len(self.folder.pipeline.targets)
        return ManifestLine(
            task=1,
            stream_id=item.stream_id,
            delivered=n,
            written=became["row"] if self.folder.decodes_to_rows else 0,  # those that the driver does not count
            rejected=became["reject"],
            rows=became["row"] * targets,
            rows_of=(became["row"],) * targets if targets > 1 else (),
            bytes=size,
            digest=Digest.of(offsets, range_.from_offset),
            first_offset=offsets[0] if n else None,
            last_offset=offsets[-1] if n else None,
            min_timestamp=min(times, default=None),
            max_timestamp=max(times, default=None),
        )

    def _write(self, rows: io.StringIO, stream_id: int, message) -> str:
        pipeline = self.folder.pipeline
        deleted = message.value() is None and pipeline.takes_tombstones
        reason = None
        try:
            value = {pipeline.format.key: message.key().decode()} if deleted else dict(json.loads(message.value()))
        except (ValueError, TypeError) as error:
            value, reason = {}, f"not JSON: {type(error).__name__}"
        if not reason and not deleted:
            try:
                value = self.change(value)
            except ValueError as error:
                value, reason = {}, f"refused: {error}"
            if value is None:
                return "filtered"
        moment = datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC).isoformat()
        raw = [message.key(), message.value()] if reason or self.folder.quarantines else [None, None]
        fields = [stream_id, message.offset(), 0, 1, moment, deleted, reason]
        fields += [None if b is None else "\\x" + b.hex() for b in raw] + [None]
        fields += [value.get(column.name) for column in pipeline.format.columns]
        rows.write(
            "\t".join("\\N" if f is None else str(f).replace("\\", "\\\\").replace("\t", " ") for f in fields) + "\n"
        )
        return "reject" if reason else "row"
