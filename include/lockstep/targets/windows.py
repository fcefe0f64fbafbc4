"""Keeps totals over the records of each window and key. Rows are shown once the watermark has passed their window."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, assert_never

from psycopg2 import sql

from lockstep.core.errors import BadData
from lockstep.core.records import RESERVED_COLUMNS
from lockstep.core.states import Lane
from lockstep.core.windows.event_time import OF_WINDOWS, Calendar, Hopping, Tumbling, parse_duration
from lockstep.core.windows.windows_of import EARLIEST_EVENT, LATEST_EVENT, WINDOW_EPOCH, windows_a_record
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, one
from lockstep.targets import accumulate
from lockstep.targets.totals import written_pieces

if TYPE_CHECKING:
    from psycopg2.extensions import cursor
    from psycopg2.sql import Composable

    from lockstep.core.pipeline.targets import Windows
    from lockstep.core.staging import AttemptId
    from lockstep.core.windows.event_time import EventTime, WindowKind
    from lockstep.targets.rows import Rows

Q = queries("lockstep.targets", "windows")
NOT_OF_A_RECORD = (*(name for name, _ in RESERVED_COLUMNS), *OF_WINDOWS)
_CALENDAR = {"earliest": sql.Literal(EARLIEST_EVENT), "latest": sql.Literal(LATEST_EVENT)}
REPLAYED_WINDOWS = (
    "what the replayed offsets added to each window is taken out, and what today's code makes of their records is added; "
    "each record is late, or not, as it was at first; a window that is shown and changes gets its next revision"
)


def publish(cur: cursor, target: Windows, rows: Rows, event_time: EventTime) -> dict[str, int]:
    """Records what each segment adds to each window and key, and keeps late rows. Rewrites the shown windows it changes.

    Windows that are not shown yet get no row. Raises `BadData` unless each row counts, or is late, in each of its windows.
    """
    cur.execute(Q["lane"], {"batch_id": rows.batch_id})
    batch = one(cur)
    parts = windowed_pieces(target, event_time, rows, is_replay=batch.lane == Lane.REPLAY, admits=batch.admits)
    parts |= written_pieces(cur, target)
    values = {"batch_id": rows.batch_id, "target": target.table, "ours": list(NOT_OF_A_RECORD)}
    accumulate.lock_target(cur, target.table)
    cur.execute(Q["make_touched"])
    cur.execute(Q["make_newest"])
    cur.execute(sql.SQL(Q["contribute"]).format(**parts), values)
    found, late, whole = one(cur), 0, rows.count * windows_a_record(target.window)
    if found.in_time + found.late != whole:
        accumulate.refuse_null_key(cur, target.table, parts | {"rows": parts["windowed"]})
    if found.late:
        cur.execute(sql.SQL(Q["keep_late"]).format(**parts), values)
        late = cur.rowcount
    if found.in_time + late != whole:
        raise BadData(
            f"{target.table}: {rows.count} rows are staged, each for {windows_a_record(target.window)} windows: "
            f"{found.in_time} count and {late} are late"
        )
    return _refreshed(cur, parts, values) | {"late": late}


def withdraw(cur: cursor, target: Windows, batch_id: int) -> dict[str, int]:
    """Removes the contributions and the late rows of the replaced segments. `publish` then rewrites their windows."""
    values = {"batch_id": batch_id, "target": target.table}
    accumulate.lock_target(cur, target.table)
    cur.execute(Q["make_touched"])
    cur.execute(Q["touch_replaced"], values)
    cur.execute(accumulate.Q["withdraw_contributions"], values)
    withdrawn = cur.rowcount
    cur.execute(Q["forget_late"], values)
    return {"withdrawn": withdrawn}


def _refreshed(cur: cursor, parts: dict[str, Composable], values: dict[str, Any]) -> dict[str, int]:
    """Brings the rows of shown windows up to date, with their next revisions."""
    cur.execute(sql.SQL(Q["changed_windows"]).format(**parts), values)
    cur.execute(Q["raise_revisions"], values)
    cur.execute(sql.SQL(Q["delete_windows"]).format(**parts), values)
    deleted = cur.rowcount
    cur.execute(sql.SQL(Q["write_windows"]).format(**parts), values)
    updated = cur.rowcount
    cur.execute(Q["forget_changes"])
    return {"updated": updated, "deleted": deleted}


def odd_events(cur: cursor, event_time: EventTime, rows: Rows) -> list[Any]:
    """Returns stream, offset and moment of the records whose event is at no time that a window holds."""
    cur.execute(sql.SQL(Q["odd_events"]).format(moment=_moment(event_time), rows=rows.source, **_CALENDAR))
    return every(cur)


def late_share(cur: cursor, target: Windows, event_time: EventTime, rows: Rows) -> tuple[int, int]:
    """Returns how many rows a live batch has in windows, and how many of them would be late."""
    parts = windowed_pieces(target, event_time, rows, is_replay=False)
    cur.execute(sql.SQL(Q["late_share"]).format(**parts, **_CALENDAR))
    found = one(cur)
    return int(found.rows), int(found.late)


def has_due(cur: cursor, pipeline: str, table: str) -> bool:
    """Returns True if the watermark has passed windows of the table that are not shown."""
    cur.execute(Q["has_due"], {"pipeline": pipeline, "target": table})
    return bool(one(cur).found)


def show_due(cur: cursor, pipeline: str, target: Windows, most: int) -> int:
    """Gives their rows to windows that the watermark has passed, at most so many, the oldest first. Returns their number.

    The caller holds the target's lock.
    """
    values = {"pipeline": pipeline, "target": target.table, "most": most}
    parts = written_pieces(cur, target)
    cur.execute(sql.SQL(Q["due"]).format(**parts), values)
    found = cur.rowcount
    if found:
        cur.execute(Q["show"], values)
        cur.execute(sql.SQL(Q["write_due"]).format(**parts), values)
        if cur.rowcount != found:
            raise BadData(f"{target.table}: {found} windows are due, and {cur.rowcount} got a row")
    cur.execute(Q["forget_due"])
    return found


def read_added_up(cur: cursor, target: Windows) -> None:
    """Reads each window as its contributions add up, whether time has passed it or not. The rows are the cursor's."""
    ends = {"end_of_key": end_in_sql(target.window, sql.SQL("(c.key ->> 0)::timestamptz"))}
    cur.execute(sql.SQL(Q["added_up"]).format(**written_pieces(cur, target), **ends), {"target": target.table})


def see_events(cur: cursor, attempt: AttemptId) -> None:
    """Moves the event time of the batch's streams to the newest events that `publish` has found."""
    cur.execute(Q["see"], {"batch_id": attempt.batch_id, "token": attempt.token})


def windowed_pieces(
    target: Windows, event_time: EventTime, rows: Rows, *, is_replay: bool, admits: bool = False
) -> dict[str, Composable]:
    """Returns pieces of SQL that give each row once for each of its windows, with the watermark that judges it."""
    moment = _moment(event_time)
    judged = ("of_offset_admitted" if admits else "of_offset") if is_replay else "of_plan"
    parts: dict[str, Composable] = {
        "moment": moment,
        "windows": windows_in_sql(target.window, moment),
        "end_of_window": end_in_sql(target.window, sql.SQL("t.window_start")),
        "lateness": _interval(parse_duration(target.lateness, "target.lateness")),
        "excluded_names": sql.SQL(", ").join(sql.Identifier("excluded", total.name) for total in target.totals),
        "watermark": sql.SQL(Q[judged]).format(batch_id=sql.Literal(rows.batch_id)),
        "planned_at": sql.SQL(Q["planned_at"]).format(batch_id=sql.Literal(rows.batch_id)),
    }
    parts["late"] = sql.SQL(Q["late"]).format(**parts)
    parts["windowed"] = sql.SQL(Q["windowed"]).format(**parts, rows=rows.source)
    return parts


def windows_in_sql(kind: WindowKind, moment: Composable) -> Composable:
    """Returns the query for the windows of a moment. `windows_of` computes the same in Python."""
    query = {Tumbling: "tumbling", Hopping: "hopping", Calendar: "calendar"}[type(kind)]
    return sql.SQL(Q[query]).format(moment=moment, **_pieces_of(kind))


def end_in_sql(kind: WindowKind, start: Composable) -> Composable:
    """Returns the expression for the end of the window that begins at a moment."""
    query = "calendar_end" if isinstance(kind, Calendar) else "sized_end"
    return sql.SQL(Q[query]).format(moment=start, **_pieces_of(kind))


def _pieces_of(kind: WindowKind) -> dict[str, Composable]:
    epoch = sql.Literal(WINDOW_EPOCH)
    match kind:
        case Tumbling():
            return {"size": _length(kind.size), "epoch": epoch}
        case Hopping():
            hops = sql.Literal(windows_a_record(kind))
            return {"size": _length(kind.size), "every": _length(kind.every), "hops": hops, "epoch": epoch}
        case Calendar():
            step = sql.SQL("interval {}").format(sql.Literal(f"1 {kind.unit}"))
            return {"unit": sql.Literal(kind.unit), "zone": sql.Literal(kind.zone), "step": step}
        case _:
            assert_never(kind)


def _moment(event_time: EventTime) -> Composable:
    return sql.SQL("t.{}").format(sql.Identifier(event_time.column))


def _length(text: str) -> Composable:
    return _interval(parse_duration(text, "target.window"))


def _interval(length: timedelta) -> Composable:
    """Returns a length of time that no zone and no month bends."""
    return sql.SQL("make_interval(secs => {})").format(sql.Literal(int(length / timedelta(seconds=1))))
