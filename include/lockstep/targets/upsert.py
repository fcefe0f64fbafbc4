"""Keeps each key's row at its newest record, in whatever order batches and lanes bring the records (T12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg2 import errors, sql

from lockstep.core.errors import BadData
from lockstep.core.records import SOURCE_ORDER
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import maybe, one
from lockstep.ledger.staging.staged import analyze
from lockstep.targets.payload import Payload, payload
from lockstep.targets.rows import found_by_index
from lockstep.targets.source_order import refuse_new_log, remember_deletions, source_parts
from lockstep.targets.source_truncation import Truncations
from lockstep.targets.unavailable import OpenValues

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Upsert
    from lockstep.targets.rows import Rows

Q = queries("lockstep.targets", "upsert")
EFFECTS = ("inserted", "updated", "deleted", "superseded")
REPLAYED_KEYS = (
    "the replayed records are applied again, each where nothing newer of its key is there; a row whose newest record is "
    "among them and which today's code no longer yields is deleted; earlier versions come back only where they are replayed"
)


def publish(cur: cursor, target: Upsert, rows: Rows) -> dict[str, int]:
    """Inserts, updates and deletes so that each key's row is its newest record.

    Counts older records as superseded.
    """
    columns = payload(cur, target.table, rows)
    by_source = target.order_by == SOURCE_ORDER
    parts = _parts(target, rows, columns) | (source_parts(cur, rows, columns, target.key) if by_source else {})
    values: dict[str, Any] = {"batch_id": rows.batch_id, "target": target.table, "table": target.table, "stream": None}
    truncations = Truncations(cur, target.key, parts, values) if by_source else None
    count = rows.count - (truncations.count if truncations else 0)

    def run(name: str) -> int:
        cur.execute(sql.SQL(Q[name]).format(**parts), values)
        return cur.rowcount

    def told(name: str) -> Any:
        run(name)
        return one(cur)

    newest = run("keep_newest")
    left_open = OpenValues(cur, columns, parts, values)
    if newest == 0 and count == rows.count:
        run("forget_newest")
        left_open.forget_rows()
        return dict.fromkeys(EFFECTS, 0)
    owner = told("owner_of_rows")
    values |= {"pipeline": owner.pipeline, "of_several_topics": owner.of_several_topics}
    values["peers"] = [values["pipeline"], *target.shared_with]
    analyze(cur, sql.SQL("newest ({})").format(parts["keys"]))
    came_twice = newest < count and not rows.of_one_stream
    _refuse_staged(cur, target, run, came_twice=came_twice, of_several_topics=owner.of_several_topics)
    if truncations is None:
        left_open.fill_from_batch()
    run("lock_target")  # not earlier: no other session uses the staged rows, and sorting them takes time
    passed_over, emptied = truncations.apply(left_open) if truncations else (0, 0)
    # Each step joins all keys, so those that would find nothing are left out.
    there, deletions = told("look_up"), told("deletions")
    if target.order_by is None and there.moved:
        run("moved_since")
        _refuse_moved_key(cur, target)
    if by_source and (there.newer or deletions.earlier):
        refuse_new_log(cur, parts, values)
    if target.order_by is None and deletions.earlier:
        run("moved_since_deleted")
        _refuse_moved_key(cur, target, was="was deleted in one partition and stands in another")
    _remember_deletions(cur, parts, values, newest=deletions.now, within=newest < count)
    superseded = run("drop_superseded") if there.newer else 0
    dead = run("drop_dead") if deletions.earlier else 0
    unavailable = left_open.fill_from_rows()
    if by_source:
        remember_deletions(cur, parts, values)
    deleted = run("delete_rows") if deletions.now else 0
    existing: int = told("count_existing").existing if dead else there.found - superseded - deleted
    written = run("upsert_rows") if there.found else inserted_new(cur, run)
    run("forget_newest")
    left_open.forget_rows()
    done = (written - existing, existing, deleted + emptied, count - newest + superseded + dead + passed_over)
    return dict(zip(EFFECTS, done, strict=True)) | unavailable


def _remember_deletions(
    cur: cursor, parts: dict[str, Any], values: dict[str, Any], *, newest: bool, within: bool
) -> None:
    """Remembers the last staged deletion of each key, also where a newer record is there or staged.

    That record may be refused later, and those before the deletion must not return then.
    """
    found: list[sql.Composable] = [sql.SQL("newest")] if newest else []
    found += [sql.SQL(Q["deletions_within"]).format(**parts)] if within else []
    for deletions in found:
        cur.execute(sql.SQL(Q["insert_tombstones"]).format(**parts, deletions=deletions), values)


def _refuse_staged(
    cur: cursor, target: Upsert, run: Callable[[str], int], *, came_twice: bool, of_several_topics: bool
) -> None:
    """Raises `BadData` for staged records without a key or an order, and for a key in two places without one."""
    run("without_key")
    _refuse_no_key(cur, target)
    if target.order_by is not None:
        run("without_order")
        _refuse_no_order(cur, target)
    elif came_twice:
        run("moved_within")
        _refuse_moved_key(cur, target)
        if of_several_topics:
            run("moved_between")
            _refuse_moved_key(cur, target)


def inserted_new(cur: cursor, run: Callable[[str], int]) -> int:
    """Inserts rows of keys that had none a moment ago. Returns their number."""
    cur.execute("savepoint no_key_is_there")
    try:
        return run("insert_rows")
    except errors.UniqueViolation:  # another session has written one meanwhile, or another key of the table is violated
        cur.execute("rollback to savepoint no_key_is_there")
        return run("upsert_rows")


def _refuse_moved_key(cur: cursor, target: Upsert, was: str = "stands in two partitions") -> None:
    row = maybe(cur)
    if row is None:
        return
    cur.execute(Q["topics_of_streams"], {"one": row.one, "other": row.other})
    topics, remedy = one(cur), "name a column with order_by"
    if topics.one != topics.other:
        was = was.replace("two partitions", "two topics").replace("in one partition", "in one topic")
        where = f"{topics.one} and {topics.other}, streams"
    else:
        where, remedy = "streams", f"{remedy}, or partition the topic by this key"
    raise BadData(
        f"{target.table}: a key {was} ({where} {row.one} and {row.other}) and nothing says which record is newer; {remedy}",
        values=f"the key is {row.key}",
    )


def _refuse_no_order(cur: cursor, target: Upsert) -> None:
    row = maybe(cur)
    if row is not None:
        raise BadData(
            f"{target.table}: {target.order_by} of the record at {row.place} offset {row.offset} is null, and "
            "nothing else says which record of its key is newer; drop such records in the transform"
        )


def _refuse_no_key(cur: cursor, target: Upsert) -> None:
    row = maybe(cur)
    if row is not None:
        raise BadData(
            f"{target.table}: the key ({', '.join(target.key)}) of the record at {row.place} offset "
            f"{row.offset} is null in part; drop such records in the transform"
        )


def _parts(target: Upsert, rows: Rows, columns: Payload) -> dict[str, Any]:
    types = dict(zip(columns.names, columns.types, strict=True))
    keys = [sql.Identifier(name) for name in target.key]
    order = [sql.Identifier(target.order_by)] if target.order_by else []

    def each(template: str, items: list[sql.Identifier], joined_by: str = ", ") -> sql.Composable:
        return sql.SQL(joined_by).join(sql.SQL(template).format(item) for item in items)

    target_order, newest_order = each("t.{},", order, " "), each("n.{},", order, " ")
    return {
        "rows": rows.source,
        "target": table_name(target.table),
        "columns": columns.columns,
        "marks": sql.SQL(Q["marks"] if columns.is_marked else ""),
        "staged": columns.staged,
        "keys": each("{}", keys),
        "newest_keys": each("n.{}", keys),
        "staged_keys": Payload(target.key, tuple(types[name] for name in target.key)).staged,
        "key_places": sql.SQL(", ").join(sql.SQL(str(place)) for place, _ in enumerate(keys, 1)),
        "same_key": each("t.{0} = n.{0}", keys, " and "),
        "placed": columns.staged,
        "newest_first": each("{} desc,", order, " "),
        "order": sql.SQL(""),
        "staged_order": sql.SQL(""),
        "before_newest": sql.SQL(""),
        "dead": sql.SQL(Q["dead_by_log"]),
        **dict.fromkeys(("tombstone_order", "deleted_order", "keep_order"), sql.SQL("")),
        "no_key": each("n.{} is null", keys, " or "),
        "no_order": each("n.{} is null", order, " and "),
        "target_order": target_order,
        "newest_order": newest_order,
        "older": sql.SQL(Q["older"]).format(
            target_order=target_order,
            newest_order=newest_order,
            ranked_higher=each("t.{0} > n.{0}", order) if order else sql.SQL("false"),
        ),
        "apart": sql.SQL(Q["apart"]),
        "assignments": each(
            "{0} = excluded.{0}", [sql.Identifier(n) for n in columns.names if n not in target.key] or keys
        ),
    }


def withdraw(
    cur: cursor, target: Upsert, batch_id: int, stream_id: int | None = None, *, keeps: bool = False
) -> dict[str, int]:
    """Deletes the rows, and forgets the deletions, that come from a replayed record.

    Publishing does them again. With `keeps`, it finds there what its records leave open.
    """
    table = table_name(target.table)
    cur.execute(Q["lock_target"], {"table": target.table})
    replaced = {"batch_id": batch_id, "stream_id": stream_id}
    withdraw_rows = sql.SQL(Q["withdraw_rows"]).format(target=table)
    if keeps:
        cur.execute(sql.SQL(Q["make_withdrawn"]).format(target=table))
        withdraw_rows = sql.SQL(Q["keep_withdrawn"]).format(withdraw_rows=withdraw_rows)
    with found_by_index(cur):
        cur.execute(withdraw_rows, replaced)
        withdrawn = cur.rowcount
    for query in ("withdraw_tombstones", *(["withdraw_truncations"] if target.order_by == SOURCE_ORDER else [])):
        cur.execute(Q[query], replaced | {"target": target.table})
    return {"withdrawn": withdrawn}
