"""Reads windows, late records and watermarks for people, and admits late records by a decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lockstep.core.states import WindowState
from lockstep.core.windows.event_time import parse_duration
from lockstep.ledger.batch.plan import range_arrays, stream_ranges
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe, one
from lockstep.ledger.views.reading import documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from psycopg2.extensions import cursor

    from lockstep.core.offsets import StreamRange
    from lockstep.core.pipeline.definition import EventTime, Pipeline, Windows
    from lockstep.ledger.views.reading import Document

Q = queries("lockstep.ledger.windows", "reading")


class LatePlace(NamedTuple):
    """The place of a late row among all of its table, the newest first."""

    batch: int | None
    partition: int | None
    offset: int | None
    ordinal: int | None
    window_start: datetime | None


def window_counts(cur: cursor, pipeline: str, table: str) -> Document:
    """Returns how many windows of a table are open, due, emitted and updated, and how many rows were late."""
    cur.execute(Q["counts"], {"pipeline": pipeline, "target": table})
    row = one(cur)
    counts: Document = row._asdict()
    return {("late_rows" if name == "late" else name): value for name, value in counts.items()}


def time_facts(cur: cursor, pipeline: str, tables: Sequence[str]) -> Any | None:
    """Returns watermark, newest event, and the rows of tables that were late and that count. None before the first plan."""
    cur.execute(Q["held"], {"pipeline": pipeline, "targets": list(tables)})
    return maybe(cur)


def stream_times(cur: cursor, pipeline: str, event_time: EventTime) -> list[Document]:
    """Returns the event time of each open stream: how far it has come, and why."""
    idle = None if event_time.idle is None else parse_duration(event_time.idle, "event_time: idle")
    delay = parse_duration(event_time.delay, "event_time: delay")
    cur.execute(Q["streams"], {"pipeline": pipeline, "delay": delay, "idle": idle})
    return documents(every(cur))


def newest_windows(cur: cursor, pipeline: str, target: Windows, last: int) -> list[Document]:
    """Returns the newest windows of a target, each over all of its keys, with its state."""
    lateness = parse_duration(target.lateness, "target.lateness")
    cur.execute(Q["windows"], {"pipeline": pipeline, "target": target.table, "lateness": lateness, "last": last})
    return [_stated(row) for row in documents(every(cur))]


def next_window(cur: cursor, pipeline: str, table: str) -> Any | None:
    """Returns end and number of keys of the first window that the watermark has not passed. None without such a window."""
    cur.execute(Q["next_window"], {"pipeline": pipeline, "target": table})
    return maybe(cur)


def _stated(row: Document) -> Document:
    """Returns a window with its state in a word, instead of what it follows from."""
    shown, passed, closed = row.pop("is_shown"), row.pop("is_passed"), row.pop("is_closed")
    if not passed:
        state = WindowState.OPEN
    elif not shown:
        state = WindowState.DUE
    else:
        state = WindowState.CLOSED if closed else WindowState.EMITTED
    return {"start": row["start"], "end": row["end"], "state": state.value, **row}


def read_late(
    cur: cursor, table: str, partition: int | None, last: int, before: LatePlace | None = None
) -> tuple[int, list[Document], list[Document]]:
    """Returns the number of a table's late rows, the newest windows that they missed, and the newest of them.

    With `before`, the rows behind that place. A row that is `admitted_by` a decision waits for its replay.
    """
    place = before or LatePlace(None, None, None, None, None)
    values = {"target": table, "partition": partition, "last": last}
    cur.execute(Q["count_late"], values)
    count: int = one(cur).late
    cur.execute(Q["late_windows"], values)
    by_window = documents(every(cur))
    behind: Document = {"batch": place.batch, "before_partition": place.partition, "before_offset": place.offset}
    behind |= {"before_ordinal": place.ordinal, "before_window": place.window_start}
    cur.execute(Q["late_records"], values | behind)
    return count, by_window, documents(every(cur))


def late_ranges(
    cur: cursor, tables: Iterable[str], streams: Iterable[int], begin: int | None, end: int | None
) -> dict[StreamRange, bool]:
    """Returns the judged ranges that hold late rows of these tables, in these streams and offsets.

    The value is True for a range that a decision admits, and whose replay has not ended.
    """
    values = {"targets": list(tables), "streams": list(streams), "begin": begin, "end": end}
    cur.execute(Q["late_ranges"], values)
    rows = every(cur)
    return dict(zip(stream_ranges(rows), (row.is_admitted for row in rows), strict=True))


def admit_ranges(cur: cursor, ranges: Sequence[StreamRange], decision: int) -> None:
    """Admits what is late of these judged ranges. A replay then counts it."""
    cur.execute(Q["admit"], range_arrays(ranges) | {"decision": decision})


def note_admits(cur: cursor, request_id: int, ranges: Sequence[StreamRange]) -> None:
    """Records the judged ranges that a preview would admit."""
    cur.execute(Q["note_admits"], {"request_id": request_id} | range_arrays(ranges))


def admits(cur: cursor, request_id: int) -> tuple[StreamRange, ...]:
    """Returns the judged ranges that a preview would admit, and that no decision admits so far."""
    cur.execute(Q["admits"], {"request_id": request_id})
    return stream_ranges(every(cur))


def replay_over(
    cur: cursor, pipeline: str, windows: Sequence[StreamRange], log_starts: Mapping[int, int]
) -> int | None:
    """Returns an open replay that still does all of these offsets, or None. `log_starts` is by stream."""
    starts = {"starting": list(log_starts), "log_starts": list(log_starts.values())}
    cur.execute(Q["replay_over"], {"pipeline": pipeline} | starts | range_arrays(windows))
    row = maybe(cur)
    return row.request_id if row else None


def judged_by(cur: cursor, batch_id: int) -> Document:
    """Returns the watermark that judged a live batch, and its late rows by table."""
    cur.execute(Q["judged_by"], {"batch_id": batch_id})
    row = maybe(cur)
    return {"watermark": row and row.watermark, "late": (row and row.late) or {}}


def changed_windows(cur: cursor, batch_id: int, pipeline: Pipeline) -> dict[str, dict[str, int]]:
    """Returns, by table, how many shown windows a committed batch has changed, and how many of its rows are late."""
    if not pipeline.windows:
        return {}
    cur.execute(Q["effect"], {"batch_id": batch_id})
    row: Any = maybe(cur)
    effect = (row and row.effect) or {}
    of_each = effect if len(pipeline.targets) > 1 else {pipeline.first.table: effect}
    return {
        target.table: {
            "updated": sum(of_each.get(target.table, {}).get(name, 0) for name in ("updated", "deleted")),
            "late": of_each.get(target.table, {}).get("late", 0),
        }
        for target in pipeline.windows
    }
