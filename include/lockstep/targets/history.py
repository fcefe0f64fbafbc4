"""Keeps every version of a key, each until the next one begins, in whatever order records come (T12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.core.errors import BadData
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import each_name, table_name
from lockstep.ledger.rows import maybe, one
from lockstep.ledger.staging.staged import analyze
from lockstep.targets.accumulate import lock_target
from lockstep.targets.payload import payload
from lockstep.targets.rows import found_by_index

if TYPE_CHECKING:
    from psycopg2.extensions import cursor
    from psycopg2.sql import Composable

    from lockstep.core.pipeline.definition import History
    from lockstep.targets.payload import Payload
    from lockstep.targets.rows import Rows

Q = queries("lockstep.targets", "history")
REPLAYED_VERSIONS = (
    "the versions of the replayed offsets are deleted, and what today's code makes of their records is inserted in their "
    "place; versions beside them end where the next one of their key begins now"
)


def publish(cur: cursor, target: History, rows: Rows) -> dict[str, int]:
    """Inserts each row as a version, and ends the versions that stood at its moment.

    Raises `BadData` for a row without a key or a moment, and unless each row became a version.
    """
    columns = payload(cur, target.table, rows)
    parts = _parts(target) | _staged_parts(target, rows, columns)
    if columns.is_marked:
        _run(cur, "left_open", parts)
        _refuse_open(cur, target)
    _run(cur, "keep_versions", parts)
    analyze(cur, sql.SQL("version"))
    _refuse_null(cur, target, parts)
    lock_target(cur, target.table)
    cur.execute(Q["owner_of_versions"])
    owner = maybe(cur)
    ended = inserted = 0
    if owner is not None:
        _run(cur, "make_touched", parts)
        _run(cur, "touch_added", parts)
        _time(cur, parts, owner.pipeline)
        if target.order_by is None:
            _run(cur, "moved", parts)
            _refuse_moved(cur, target)
        ended = _run(cur, "end_versions", parts)
        inserted = _run(cur, "insert_versions", parts, batch_id=rows.batch_id)
    if inserted != rows.count:
        raise BadData(f"{target.table}: {inserted} versions were inserted, {rows.count} rows are staged")
    cur.execute(Q["forget"])
    return {"inserted": inserted, "updated": ended}


def withdraw(cur: cursor, target: History, batch_id: int, stream_id: int | None = None) -> dict[str, int]:
    """Deletes the versions of every record that is replayed. The versions before them last until the next that is left."""
    parts = _parts(target) | {"and_new": sql.SQL("")}
    lock_target(cur, target.table)
    _run(cur, "make_touched", parts)
    with found_by_index(cur):
        _run(cur, "withdraw_versions", parts, batch_id=batch_id, stream_id=stream_id)
        withdrawn = one(cur).withdrawn
    if withdrawn:
        cur.execute(Q["owner_of_replayed"], {"batch_id": batch_id})
        _time(cur, parts, one(cur).pipeline)
        _run(cur, "end_versions", parts)
    cur.execute(Q["forget"])
    return {"withdrawn": withdrawn}


def _time(cur: cursor, parts: dict[str, Composable], pipeline: str) -> None:
    """Computes the end of every version of the touched keys that may have another one now."""
    analyze(cur, sql.SQL("touched"))
    with found_by_index(cur):
        _run(cur, "time_versions", parts, pipeline=pipeline)
    analyze(cur, sql.SQL("timed"))


def _run(cur: cursor, name: str, parts: dict[str, Composable], **values: Any) -> int:
    cur.execute(sql.SQL(Q[name]).format(**parts), values)
    return int(cur.rowcount)


def _refuse_null(cur: cursor, target: History, parts: dict[str, Composable]) -> None:
    """Raises `BadData` for a version without a whole key, or without a moment."""
    without = {f"the key ({', '.join(target.key)})": (target.key, "is null in part")}
    moment = target.order_by or "the time"
    without[moment] = (("valid_from",), "is null, and nothing else says when its version begins")
    for what, (names, why) in without.items():
        is_null = sql.SQL(" or ").join(sql.SQL("n.{} is null").format(sql.Identifier(name)) for name in names)
        _run(cur, "without", parts | {"is_null": is_null})
        row = maybe(cur)
        if row is not None:
            raise BadData(
                f"{target.table}: {what} of the record at {row.place} offset {row.offset} {why}; drop such records in the "
                "transform"
            )


def _refuse_open(cur: cursor, target: History) -> None:
    row = maybe(cur)
    if row is not None:
        raise BadData(
            f"{target.table}: the record at {row.place} offset {row.offset} leaves {row.names} open, and a version needs every "
            "value: let the source log whole rows, in Postgres by alter table ... replica identity full"
        )


def _refuse_moved(cur: cursor, target: History) -> None:
    row = maybe(cur)
    if row is not None:
        raise BadData(
            f"{target.table}: a key stands in two partitions (streams {row.one} and {row.other}) and nothing says which "
            "record comes first; name a column with order_by, or partition the topic by this key",
            values=f"the key is {row.key}",
        )


def _parts(target: History) -> dict[str, Composable]:
    return {
        "target": table_name(target.table),
        "keys": each_name("n.{}", target.key),
        "target_keys": each_name("t.{}", target.key),
        "plain_keys": each_name("{}", target.key),
        "same_key": each_name("t.{0} = n.{0}", target.key, " and "),
        "same_key_before": each_name("b.{0} = n.{0}", target.key, " and "),
        "order": sql.SQL("valid_from desc," if target.order_by else ""),
    }


def _staged_parts(target: History, rows: Rows, columns: Payload) -> dict[str, Composable]:
    types = dict(zip(columns.names, columns.types, strict=True))
    moment: Composable = sql.SQL("t._timestamp")
    if target.order_by is not None:
        moment = sql.SQL("t.{}::{}").format(sql.Identifier(target.order_by), sql.SQL(types[target.order_by]))
    return {
        "rows": rows.source,
        "staged": columns.staged,
        "columns": columns.columns,
        "new_columns": each_name("n.{}", columns.names),
        "moment": moment,
        "and_new": sql.SQL(Q["and_new"]).format(keys=each_name("n.{}", target.key)),
    }
