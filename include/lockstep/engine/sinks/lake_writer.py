"""Writes a task's rows into files of the lake, and stages those of other tables. Yields its lines only then."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from lockstep.adapters.iceberg.data_file import DataFile, look_back
from lockstep.adapters.iceberg.values import value_digests
from lockstep.core.errors import BadData
from lockstep.engine.sinks.session import staging_session
from lockstep.engine.sinks.spark_task import attempt_id
from lockstep.engine.sinks.stretches import rows_by_stream
from lockstep.engine.sinks.tally import SOURCE_LINE_SCHEMA, Tally
from lockstep.engine.sinks.writer import Writer
from lockstep.faults import reach

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockstep.core.lake.files import LakeFile, LakeWork

LAKE_LINE_SCHEMA = SOURCE_LINE_SCHEMA.append(pa.field("files", pa.string()))
TASK_FILE_ROWS = 2_000_000
ALONE_ROWS = 10_000  # a stream with so many rows shares its file with no other: a replay then drops it as it is


@dataclass(frozen=True, slots=True)
class LakeWriter(Writer):
    """The destination of a task's rows, some of whose tables are in the lake. Connects to Postgres if rows are staged."""

    lakes: tuple[LakeWork, ...] = ()

    schema = LAKE_LINE_SCHEMA

    def _write(self, batches: Iterator[pa.RecordBatch], tally: Tally) -> Iterator[pa.RecordBatch]:
        files = {lake.place: TaskFiles(lake, self.batch_id) for lake in self.lakes}
        with ExitStack() as stack:
            for its in files.values():
                stack.callback(its.discard)
            cur: Any = None
            so_far = 0
            for batch in batches:
                if not batch.num_rows:
                    continue
                tally.staged(batch)
                reach("task.read_mid")
                has_rejects = batch.column("_reason").null_count < batch.num_rows
                if self.fan_out or has_rejects:
                    cur = cur or stack.enter_context(staging_session(self.dsn))
                    self._stage(cur, [batch], so_far)
                so_far += batch.num_rows
                good = batch.filter(pc.is_null(batch.column("_reason"))) if has_rejects else batch
                for its in files.values():
                    its.take(good)
            for its in files.values():
                its.close()
        if not tally.has_lines:
            return
        reach("task.committed")
        lines = tally.lines()
        closed = json.dumps({place: list(map(asdict, its.closed)) for place, its in files.items() if its.closed})
        # Once, because the facts of a file name each of its streams.
        told = [closed, *[None] * (lines.num_rows - 1)]
        yield lines.append_column("files", pa.array(told, pa.string()))


class TaskFiles:
    """The files of one task. Each is read back as it is closed, and holds the values that went into it."""

    def __init__(self, lake: LakeWork, batch_id: int) -> None:
        self._lake = lake
        self._schema = pa.ipc.read_schema(pa.py_buffer(lake.schema))
        self._batch_id = batch_id
        self._open: DataFile | None = None
        self._last: int | None = None
        self._put: dict[str, int] = {}  # digests of what was written into the open file, by stream
        self.closed: list[LakeFile] = []

    def take(self, rows: pa.RecordBatch) -> None:
        """Writes rows, as the table has them. Raises `BadData` for a value that it cannot hold."""
        for stream, part in rows_by_stream([rows]):
            held = self._open.rows if self._open else 0
            if held >= TASK_FILE_ROWS or (stream != self._last and held >= ALONE_ROWS):
                self.close()
            self._last = stream
            if self._open is None:
                address = f"{self._lake.prefix}/{attempt_id()}-{len(self.closed)}-{uuid4()}.parquet"
                self._open = DataFile(address, self._schema, self._lake.options, self._digest)
            self._open.write(self._as_held(part))
            reach("lake.file_open")

    def close(self) -> None:
        """Closes the open file, if there is one, and reads it back. From here on it counts, if its task does.

        Raises `BadData` if the store gives back other values than it took, or a row is in it twice.
        """
        if self._open is None:
            return
        self._open.close()
        address, rows, self._open = self._open.address, self._open.rows, None
        reach("lake.file_closed")
        found = look_back(address, self._batch_id, self._lake.columns, self._lake.options)
        if (found.rows, found.digests) != (rows, self._put):
            raise BadData(
                f"batch {self._batch_id}: {address} does not hold the values of the {rows} rows that were written into it",
                next_command=f"lockstep batch {self._batch_id}",
            )
        self.closed.append(found)
        self._put = {}

    def _digest(self, rows: pa.RecordBatch) -> None:
        """Adds rows to what the open file has to give back."""
        for stream, digest in value_digests(rows, self._lake.columns).items():
            self._put[str(stream)] = self._put.get(str(stream), 0) + digest

    def discard(self) -> None:
        """Takes a file away that was not closed, because its task ends here."""
        if self._open is not None:
            self._open.discard()
            self._open = None

    def _as_held(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        values = {name: rows.column(name) for name in rows.schema.names}
        values["_batch"] = pa.repeat(pa.scalar(self._batch_id, pa.int64()), rows.num_rows)
        try:
            arrays = [
                pc.cast(values[field.name], field.type) if field.name in values else pa.nulls(rows.num_rows, field.type)
                for field in self._schema
            ]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise BadData(
                f"batch {self._batch_id}: a value that no column of the lake holds: {str(error).splitlines()[0]}",
                next_command=f"lockstep batch {self._batch_id}",
            ) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
