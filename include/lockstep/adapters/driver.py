"""Reads in the driver: one process from Kafka to Postgres, with the code of Spark's tasks on the short way."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING

import psycopg2
import pyarrow as pa

from lockstep.adapters.postgres import staging_dsn
from lockstep.adapters.postgres_words import last_line
from lockstep.core.errors import BadData, Unreachable
from lockstep.core.staging import LeftToSpark, RangeOutcome
from lockstep.formats.json_columns import straight_columns
from lockstep.staging.range_writer import OUTCOMES, RangeWriter
from lockstep.staging.straight import END_ROW, decoded
from lockstep.staging.stretches import END
from lockstep.staging.tally import LINES, manifest_line
from lockstep.staging.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lockstep.adapters.kafka_ranges import KafkaRanges
    from lockstep.core.accounting import ManifestLine
    from lockstep.core.folder import PipelineFolder
    from lockstep.core.staging import RangeTask, StageWork

    GoOn = Callable[[], None]


class Driver:
    """The driver as a reader of records that decode by columns.

    Raises `LeftToSpark` for any other record, and passes on errors of `go_on`.
    """

    def __init__(self, folder: PipelineFolder, reader: KafkaRanges, dsn: str) -> None:
        self._folder = folder
        self._decode = straight_columns(folder)
        self._reader = reader
        self._dsn = dsn

    @property
    def can_read(self) -> bool:
        """Returns True if any record of this pipeline may be decoded here."""
        return self._decode is not None

    def read(self, work: StageWork, go_on: GoOn) -> tuple[ManifestLine, ...]:
        """Stages every visible record of the ranges, or none."""
        dsn = staging_dsn(self._dsn, work.stager)
        writer = Writer(dsn, work.table, work.batch_id, work.token, work.from_offsets)
        with _told(work, go_on):
            lines = pa.Table.from_batches(writer.whole(self._decoded(work, go_on)), LINES)
        return tuple(map(manifest_line, lines.to_pylist()))

    def commit_ranges(self, work: StageWork, task: RangeTask, go_on: GoOn) -> tuple[RangeOutcome, ...]:
        """Commits range after range. Stops at a range that is left to Spark."""
        names = tuple(column.name for column in work.columns)
        writer = RangeWriter(task, secrets.token_hex(8), work.from_offsets, names)
        with _told(work, go_on):
            said = pa.Table.from_batches(writer.whole(chain(self._decoded(work, go_on), [END_ROW])), OUTCOMES)
        told = said.drop_columns(["slot"]).to_pylist()
        return tuple(RangeOutcome(**row) for row in told if row["stream_id"] != END)

    def _decoded(self, work: StageWork, go_on: GoOn) -> Iterator[pa.RecordBatch]:
        if self._decode is None:
            raise LeftToSpark
        yield from decoded(self._reader.records(work.ranges, go_on), self._decode, keeps_bytes=self._folder.quarantines)


@contextmanager
def _told(work: StageWork, go_on: GoOn) -> Iterator[None]:
    """Turns errors between Kafka and Postgres into one line."""
    what = f"{work.pipeline}: batch {work.batch_id}"
    try:
        yield
    except (ConnectionError, psycopg2.DatabaseError) as error:
        go_on()
        if isinstance(error, ConnectionError):
            raise Unreachable(f"{what} could not be read: {last_line(error)}") from error
        raise BadData(f"{what} could not be staged: {last_line(error)}") from error
