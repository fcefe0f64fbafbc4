"""Provides an engine over a remembered log.

It stages what a committed reader would get, in tasks that may fail and be tried again.
"""

from __future__ import annotations

import io
import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg2

from lockstep.core.engine import RangeOutcome, RangeTask
from lockstep.core.errors import BadData, Unreachable
from lockstep.core.figures import Application
from lockstep.core.planning.routes import Route, Way
from lockstep.core.proof.accounting import Digest, ManifestLine, nothing
from lockstep.core.staging import STAGING_SCHEMA
from lockstep.core.states import RangeEnd
from lockstep.engine.sinks.range_rows import RangeRows
from lockstep.faults import reach
from support.fakes.plain_engine import pieces

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.core.engine import Sink
    from lockstep.core.figures import Figures
    from lockstep.core.offsets import StreamRange
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.staging import StageWork
    from simulation.log import Log


class UnderWay:
    """The input of COPY, with the fault point after the first bytes."""

    def __init__(self, rows: io.StringIO) -> None:
        self.rows = rows

    def read(self, size: int = -1) -> str:
        if self.rows.tell():
            reach("task.copy_mid")
        return self.rows.read(size)


class RememberedEngine:
    """An engine whose code is a `factor`, which may change between batches.

    `n` is multiplied by it, and both are kept. Records that `refuses` names by their content are rejects.
    """

    refuses: Callable[[dict], bool] | None = None

    def __init__(self, folder: PipelineFolder, log: Log, dsn: str, factor: int = 1, seed: int = 0) -> None:
        self.folder = folder
        self.log = log
        self.dsn = dsn
        self._conn: psycopg2.extensions.connection | None = None
        self.renew(factor, seed)

    def renew(self, factor: int, seed: int) -> RememberedEngine:
        """Takes the code of another day, and another seed. Keeps the session."""
        self.factor = factor
        self.random = random.Random(seed)  # noqa: S311 - a seed that can be told is the point
        return self

    def close(self) -> None:
        """Closes the session. The next task opens another."""
        if self._conn is not None:
            self._conn.close()

    def route(self) -> Route:
        return Route(Way.PROCESS, "a reader of the tests")

    def application(self, _work: StageWork) -> Application | None:
        return Application(f"factor {self.factor}")  # written down with the attempt: which code made its rows

    def figures(self, _work: StageWork) -> Figures | None:
        return None

    def columns(self, place: int = 0) -> tuple[Column, ...]:
        assert place < len(self.folder.pipeline.targets)
        return self.folder.pipeline.format.columns

    def cancel(self) -> None:
        """Does nothing, because a read takes no time here."""

    def read(self, work: StageWork, sink: Sink[Any]) -> tuple[Any, ...]:
        return self._commit(work, sink) if isinstance(sink, RangeTask) else self._stage(work)

    def _stage(self, work: StageWork) -> tuple[ManifestLine, ...]:
        lines = []
        for task, item in enumerate(work.ranges):
            if self.random.random() < 0.1:  # a first try of the task, whose rows lose
                self._task(work, item, 1_000 + task)
            lines.append(self._task(work, item, task))
        return tuple(line for line in lines if line.delivered)

    def _commit(self, work: StageWork, task: RangeTask) -> tuple[RangeOutcome, ...]:
        outcomes = []
        parts = [(item, piece) for item in work.ranges for piece in self._pieces(task, item)]
        for number, (item, piece) in enumerate(parts):
            its = task.of_part((piece,))
            if self.random.random() < 0.1:  # a first try of the task, whose COMMIT was never acknowledged
                self.one_range(its, piece, item, number)
            outcome = self.one_range(its, piece, item, number)
            outcomes += [outcome] if outcome else []
        return tuple(outcomes)

    def _pieces(self, task: RangeTask, item) -> list[StreamRange]:
        """Cuts a range in two where tasks may take pieces of it."""
        offsets = item.offsets
        if not task.may_cut or offsets.span < 2 or self.random.random() < 0.5:
            return [item]
        middle = self.random.randrange(offsets.from_offset + 1, offsets.until_offset)
        low, high = replace(offsets, until_offset=middle), replace(offsets, from_offset=middle)
        return [replace(item, offsets=low), replace(item, offsets=high)]

    def one_range(self, task: RangeTask, item, whole, number: int) -> RangeOutcome | None:
        rows = io.StringIO()
        line = self._line(item, number, rows)
        d, behind = line.digest, item.offsets.from_offset - whole.offsets.from_offset
        line = replace(line, digest=Digest(d.n, d.sum + d.n * behind, d.squares + (2 * d.sum + d.n * behind) * behind))
        if not line.delivered and item == whole:
            return None
        with task.session() as session:
            if not line.delivered:
                return session.commit(nothing(item))
            if session.is_committed(item.stream_id):
                return RangeOutcome(item.stream_id, RangeEnd.FOUND)
            made = RangeRows(session, item.stream_id, task.attempt.batch_id)
            for piece in pieces(rows.getvalue(), self.columns(), 2):
                made.take(piece)
            return made.commit(line)

    def _task(self, work: StageWork, item, task: int) -> ManifestLine:
        rows = io.StringIO()
        line = self._line(item, task, rows)
        reach("task.read_mid")
        rows.seek(0)
        self._copy(work, rows)
        reach("task.committed")
        return line

    def _line(self, item, task: int, rows: io.StringIO) -> ManifestLine:
        """Writes the range's rows and returns their manifest line."""
        offsets = item.offsets
        part = self.log.parts[offsets.topic_partition.partition]
        if part.log_start > offsets.from_offset or part.stable_end < offsets.until_offset:
            raise Unreachable(f"{offsets}: KAFKA_DATA_LOSS")
        records = part.visible(offsets.from_offset, offsets.until_offset)
        rejected, targets = 0, len(self.folder.pipeline.targets)
        for offset, record in records.items():
            rejected += self._write(rows, item.stream_id, offset, record, task)
        return ManifestLine(
            task=task,
            stream_id=item.stream_id,
            delivered=len(records),
            written=len(records) - rejected if targets == 1 or self.folder.fans_out else 0,  # others the driver counts
            rejected=rejected,
            rows=(len(records) - rejected) * targets,
            rows_of=(len(records) - rejected,) * targets if targets > 1 else (),
            bytes=10 * len(records),
            digest=Digest.of(records, offsets.from_offset),
            first_offset=min(records, default=None),
            last_offset=max(records, default=None),
            min_timestamp=min((r.at for r in records.values()), default=None),
            max_timestamp=max((r.at for r in records.values()), default=None),
        )

    def _copy(self, work: StageWork, rows: io.StringIO) -> None:
        try:
            if self._conn is None or self._conn.closed:
                self._conn = psycopg2.connect(self.dsn)
            with self._conn as conn, conn.cursor() as cur:  # a task is a transaction
                cur.execute("set local role lockstep_stager; set local timezone = 'UTC'")
                cur.execute("set local application_name = %s", (work.stager,))
                good = [line for line in rows.getvalue().splitlines(keepends=True) if line.split("\t")[6] == "\\N"]
                for place, (table, _) in enumerate(work.tables):  # rejects go into the first one's
                    staged = io.StringIO("".join(good)) if place else rows
                    cur.copy_expert(f"copy {STAGING_SCHEMA}.{table} from stdin", UnderWay(staged))  # type: ignore[arg-type]
                reach("task.copy_end")
        except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
            raise Unreachable(str(error).splitlines()[0]) from None
        except psycopg2.DatabaseError as error:
            raise BadData(str(error).splitlines()[0]) from None

    def _write(self, rows: io.StringIO, stream_id: int, offset: int, record, task: int) -> int:
        deleted = record.value is None and self.folder.pipeline.takes_tombstones
        reason, value = None, {"id": record.key.decode()}
        if not deleted:
            try:
                value = dict(json.loads(record.value))
                if self.refuses and self.refuses(value):
                    raise ValueError  # noqa: TRY301 - as if no JSON
                value |= {"n": value["n"] and value["n"] * self.factor, "factor": self.factor}
            except (ValueError, TypeError):
                reason, value = "no JSON", {}
        fields = [stream_id, offset, 0, task, record.at.isoformat(), deleted, reason]
        raw = [record.key, record.value] if reason or self.folder.quarantines else [None, None]
        fields += [None if b is None else "\\\\x" + b.hex() for b in raw] + [None]
        fields += [value.get(column.name) for column in self.columns()]
        rows.write("\t".join("\\N" if f is None else str(f) for f in fields) + "\n")
        return int(reason is not None)
