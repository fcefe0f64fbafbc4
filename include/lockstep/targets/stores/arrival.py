"""Brings one delivery in one transaction of the store, which fences it. A repeated delivery overwrites itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.core.errors import BadData, Refusal
from lockstep.core.pipeline.definition import Append, AtLeastOnce, Idempotent, Upsert
from lockstep.core.records import COORDINATE_COLUMNS
from lockstep.core.states import Lane
from lockstep.ledger.batch.delivery import Q as TAKING
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name, typed_columns
from lockstep.ledger.rows import maybe, one
from lockstep.targets import append, upsert
from lockstep.targets.payload import payload
from lockstep.targets.rows import Rows, staged_rows
from lockstep.targets.stores.delivery import NewerArrival

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import cursor

    from lockstep.adapters.postgres import Place
    from lockstep.targets.stores.delivery import Delivery

Q = queries("lockstep.targets.stores", "arrival")
ARRIVING = "pg_temp.arriving"
TRAVELS = (*COORDINATE_COLUMNS, ("_deleted", "boolean"))


def take(cur: cursor, delivery: Delivery) -> None:
    """Copies the staged rows, as Postgres itself writes them, to a file in the spool."""
    columns = _names([name for name, _ in (*TRAVELS, *delivery.columns)])
    rows = staged_rows(delivery.attempt, delivery.count).source
    with (delivery.spool / "rows").open("wb") as file:
        cur.copy_expert(sql.SQL(TAKING["take_rows"]).format(columns=columns, rows=rows), file)


def publish_spooled(cur: cursor, delivery: Delivery, place: Place, *, notes_streams: bool) -> dict[str, int]:
    """Publishes the spooled rows as results, in the caller's transaction.

    Raises `Superseded` if a newer delivery has come.
    """
    came_before = _hold(cur, delivery)
    _unpack(cur, delivery)
    if notes_streams:
        _note_streams(cur, delivery, place)
    return _publish(cur, delivery, came_before=came_before)


def arrays(ranges: Sequence[Any]) -> dict[str, Any]:
    """Returns (stream, from, until) as the statements take them: three arrays."""
    streams, froms, untils = ([item[place] for item in ranges] for place in range(3))
    return {"streams": streams, "froms": froms, "untils": untils}


def _hold(cur: cursor, delivery: Delivery) -> bool:
    """Locks the target, looks for newer deliveries and records this one. Returns True if an earlier one came before."""
    target = delivery.pipeline.first.table
    cur.execute(Q["lock_target"], {"target": target})
    cur.execute(Q["keep_ranges"], arrays(delivery.ranges))
    if isinstance(delivery.pipeline.guarantee, AtLeastOnce):
        return False
    cur.execute(Q["arrivals"], {"target": target})
    newest = maybe(cur)
    token = delivery.attempt.token
    may_repeat = isinstance(delivery.pipeline.guarantee, Idempotent)
    if newest and (newest.token > token or (newest.token == token and not may_repeat)):
        raise NewerArrival(
            f"batch {delivery.attempt.batch_id}: {target} holds what attempt {newest.token} of batch {newest.batch_id} "
            f"brought for stream {newest.stream_id} [{newest.from_offset}, {newest.until_offset})",
            newest.batch_id,
            newest.token,
        )
    cur.execute(Q["forget_arrivals"], {"target": target})
    cur.execute(Q["note_arrivals"], {"target": target, "batch_id": delivery.attempt.batch_id, "token": token})
    return newest is not None


def _unpack(cur: cursor, delivery: Delivery) -> None:
    types = (*TRAVELS, *delivery.columns)
    cur.execute(sql.SQL(Q["make_rows"]).format(columns=typed_columns(types)))
    with (delivery.spool / "rows").open("rb") as file:
        cur.copy_expert(sql.SQL(Q["fill_rows"]).format(columns=_names([name for name, _ in types])), file)


def _note_streams(cur: cursor, delivery: Delivery, place: Place) -> None:
    """Records the epoch of each stream in the store, under the pipeline's name of today.

    Refuses streams of these numbers that are another ledger's.
    """
    facts = {
        "pipeline": delivery.pipeline.name,
        "former": list(delivery.former),
        "streams": list(delivery.epochs),
        "epochs": list(delivery.epochs.values()),
    }
    cur.execute(Q["note_streams"], facts)
    cur.execute(Q["foreign_stream"], facts)
    if row := maybe(cur):
        raise Refusal(
            f"{delivery.pipeline.name}: stream {row.stream_id} in {place.called} is of {row.pipeline}, by another ledger: "
            "two ledgers cannot share a store",
            next_command=f"set {place.variable} to another database",
        )


def _publish(cur: cursor, delivery: Delivery, *, came_before: bool) -> dict[str, int]:
    """Publishes the rows as the guarantee and the target require.

    A replay, and a redelivery, first removes the old rows.
    """
    target, guarantee = delivery.pipeline.first, delivery.pipeline.guarantee
    rows = Rows(delivery.attempt, delivery.count, ARRIVING, sql.Identifier("pg_temp", "arriving"))
    parts = {"target": table_name(delivery.pipeline.first.table)}
    withdrawn = 0
    if isinstance(target, Append) and isinstance(guarantee, Idempotent):
        cur.execute(sql.SQL(Q["withdraw_unbrought"]).format(**parts))
        return {"withdrawn": cur.rowcount} | _put(cur, target, rows)
    if came_before or delivery.lane == Lane.REPLAY:
        cur.execute(sql.SQL(Q["withdraw_rows"]).format(**parts))
        withdrawn = cur.rowcount
        cur.execute(Q["withdraw_tombstones"], {"target": target.table})
    publish = upsert.publish if isinstance(target, Upsert) else append.publish
    return {"withdrawn": withdrawn} | publish(cur, target, rows)  # type: ignore[arg-type]  # each takes its own


def _put(cur: cursor, target: Append, rows: Rows) -> dict[str, int]:
    columns = payload(cur, target.table, rows)
    statement = sql.SQL(Q["put_rows"]).format(
        target=table_name(target.table),
        columns=columns.columns,
        staged=columns.staged,
        rows=rows.source,
        assignments=sql.SQL(", ").join(
            sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in columns.names
        ),
    )
    cur.execute(statement, {"batch_id": rows.batch_id})
    done = one(cur)
    if done.inserted + done.updated != rows.count:
        raise BadData(f"{target.table}: {done.inserted + done.updated} rows were brought, {rows.count} are staged")
    return {"inserted": done.inserted, "updated": done.updated}


def _names(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))
