"""Counts windows again, from records that were decoded a second time, for Postgres to compare with rows and ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from psycopg2 import sql

from lockstep.core.windows.judgements import JudgedRange
from lockstep.engine.sinks.session import copy_rows
from lockstep.formats.second_reading import REREAD_COLUMNS
from lockstep.ledger.proof.verify import first_wrong
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import typed_columns
from lockstep.ledger.rows import every, one
from lockstep.targets.proof.decoded import castable
from lockstep.targets.totals import written_pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.targets import Windows
    from lockstep.core.proof.verification import Segment, Wrong
    from lockstep.core.windows.event_time import EventTime
    from lockstep.core.windows.judgements import PlacedRecord

Q = queries("lockstep.targets.proof", "recount")
ROOMS = ("make_placed", "make_recounted", "make_late", "make_segments")
BESIDE_RECORDS = [*(name for name, _ in REREAD_COLUMNS), "window_start", "window_end", "_watermark", "Late"]
ARROW_MOMENT = pa.timestamp("us", "UTC")


class Recount:
    """The totals that each segment's records add to windows, beside one target.

    Records come placed in windows, and judged. The SQL that did so at first has no part in it.
    """

    def __init__(self, cur: cursor, target: Windows, event_time: EventTime, columns: Sequence[Column]) -> None:
        self._cur = cur
        self._target = target
        self._parts = written_pieces(cur, target)
        self._parts["moment"] = sql.SQL("t.{}").format(sql.Identifier(event_time.column))
        self._parts["beside_others"] = sql.SQL(Q["beside_others"])
        staged = [*REREAD_COLUMNS, *((column.name, column.postgres_type) for column in columns)]
        cur.execute(sql.SQL(Q["make_records"]).format(columns=typed_columns(staged)))
        for room in ROOMS:
            cur.execute(Q[room])

    def judgements(self, stream_id: int, segment: Segment) -> list[JudgedRange]:
        """Returns the watermarks of the plans that first read a segment's offsets."""
        stretch = {"from_offset": segment.from_offset, "until_offset": segment.until_offset}
        self._cur.execute(Q["judgements"], _of(stream_id, segment) | stretch)
        return [JudgedRange(row.from_offset, row.until_offset, row.watermark) for row in every(self._cur)]

    def add(self, stream_id: int, segment: Segment, rows: pa.RecordBatch, placed: Sequence[PlacedRecord]) -> None:
        """Adds a chunk of a segment's decoded records to the windows that they were placed in."""
        self._cur.execute(Q["empty_chunk"])
        copy_rows(self._cur, "pg_temp", "lockstep_reread", rows)
        copy_rows(self._cur, "pg_temp", "lockstep_placed", _columns(placed))
        values = _of(stream_id, segment) | {"ours": BESIDE_RECORDS}
        with castable(self._target.table):
            self._cur.execute(sql.SQL(Q["recount"]).format(**self._parts), values)
            self._cur.execute(sql.SQL(Q["recount_late"]).format(**self._parts), values)

    def keep(self, stream_id: int, segment: Segment) -> None:
        """Lets a segment be compared, because each of its records was read."""
        self._cur.execute(Q["keep_segment"], _of(stream_id, segment))

    def forget(self, stream_id: int, segment: Segment) -> None:
        """Leaves a segment out of the comparison."""
        self._cur.execute(Q["forget_recounted"], _of(stream_id, segment))
        self._cur.execute(Q["forget_late"], _of(stream_id, segment))

    def counts(self) -> Any:
        """Returns the numbers of windows, of records in them, of late ones, and of windows with other records, too."""
        self._cur.execute(sql.SQL(Q["counts"]).format(**self._parts), {"target": self._target.table})
        return one(self._cur)

    def miscounted(self) -> Wrong:
        """Returns the segments that count other records in a window than the log has."""
        return self._side_by_side("said_of_count", "is_miscounted")

    def changed(self) -> Wrong:
        """Returns the segments that add other totals to a window than their records give."""
        return self._side_by_side("said_of_change", "is_changed")

    def late(self) -> Wrong:
        """Returns the late rows that are lost, put in, or changed."""
        return self._found("late_differently")

    def rows(self) -> Wrong:
        """Returns the windows whose row is missing, doubled, put in, or of other totals."""
        return self._found("rows_differ")

    def drop(self) -> None:
        """Makes room for another target's records."""
        self._cur.execute(Q["drop_all"])

    def _side_by_side(self, found: str, is_wrong: str) -> Wrong:
        pieces = {"found": found, "is_wrong": is_wrong}
        made = {name: sql.SQL(Q[query]).format(**self._parts) for name, query in pieces.items()}
        return self._found("side_by_side", **made)

    def _found(self, query: str, **more: sql.Composable) -> Wrong:
        statement = sql.SQL(Q[query]).format(**self._parts, **more)
        return first_wrong(self._cur, statement, {"target": self._target.table})


def _of(stream_id: int, segment: Segment) -> dict[str, Any]:
    return {"stream_id": stream_id, "batch_id": segment.batch_id}


def _columns(placed: Sequence[PlacedRecord]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({
        "_offset": pa.array([each.offset for each in placed], pa.int64()),
        "window_start": pa.array([each.window.start for each in placed], ARROW_MOMENT),
        "window_end": pa.array([each.window.end for each in placed], ARROW_MOMENT),
        "_watermark": pa.array([each.watermark for each in placed], ARROW_MOMENT),
        "Late": pa.array([each.late for each in placed], pa.bool_()),
    })  # fmt: skip
