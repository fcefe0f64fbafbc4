"""Reads a feed: where it stands, its changes from a number on, and the snapshot to begin with."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.core.errors import Refusal
from lockstep.core.feed.feeds import SCHEMA, feed_name
from lockstep.ledger.exact_rows import exact_rows, with_texts
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import every, maybe
from lockstep.ledger.views.reading import documents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Target
    from lockstep.ledger.views.reading import Document

Q = queries("lockstep.ledger.feed", "reading")
_COUNTS = ("inserted", "updated", "deleted")
ENTRIES = {"insert": "insert", "before": "update", "delete": "delete", "erased": "erased"}


def read_changes(
    cur: cursor, pipeline: str, table: str, begin: int | None, limit: int, timeline: str | None = None
) -> Document:
    """Returns where the feed stands, and at most `limit` changes from the number `begin` on. Without it, the newest.

    Raises `Refusal` for a number that is trimmed or not given yet. Raises it, too, for a timeline that a restore has ended.
    """
    feed = require_feed(cur, pipeline, table)
    if timeline not in {None, feed.timeline}:
        raise Refusal(
            f"{pipeline}: the numbers of {table} are of the timeline {feed.timeline}, those of {timeline} are asked for: the "
            "ledger was restored, and numbers were given again",
            next_command=f"lockstep changes {pipeline} --target {table} --snapshot",
        )
    if begin is None:
        begin = max(feed.kept_from, feed.next_number - limit)
    if begin < feed.kept_from:
        raise Refusal(
            f"{pipeline}: the changes of {table} below number {feed.kept_from} are trimmed, {begin} is asked for",
            next_command=f"lockstep changes {pipeline} --target {table} --snapshot",
        )
    if begin > feed.next_number:
        raise Refusal(
            f"{pipeline}: the next change of {table} gets number {feed.next_number}, {begin} is asked for",
            next_command=f"lockstep changes {pipeline} --target {table} --from {feed.next_number}",
        )
    images = table_name(f"{SCHEMA}.{feed_name(table)}")
    row_of = exact_rows(cur, images)
    values = {"target": table, "begin": begin, "until": begin + limit}
    cur.execute(sql.SQL(Q["changes"]).format(rows=with_texts(cur, images)), values)
    return _stands(feed) | {"changes": _entries(every(cur), tuple(feed.key), row_of)}


def read_snapshot(cur: cursor, pipeline: str, target: Target) -> Document:
    """Returns the table's rows. A consumer that has them goes on at `next_number` (E14).

    Needs a transaction in which every statement sees the same snapshot.
    """
    feed = require_feed(cur, pipeline, target.table)
    keys = sql.SQL(", ").join(map(sql.Identifier, feed.key))
    row_of = exact_rows(cur, table_name(target.table))
    rows = with_texts(cur, table_name(target.table))
    cur.execute(sql.SQL(Q["snapshot"]).format(rows=rows, keys=keys))
    return _stands(feed) | {"changes": [], "rows": [row_of(row.row) for row in every(cur)]}


def announced_changes(cur: cursor, batch_id: int) -> dict[str, int]:
    """Returns how many changes a batch announced, by the table of each feed."""
    cur.execute(Q["announced"], {"batch_id": batch_id})
    return {row.target: row.changes for row in every(cur)}


def read_change_sets(cur: cursor, batch_id: int) -> list[Document]:
    """Returns what a batch announced to each feed: one set, or under `PerPartition()` one for each of its ranges.

    `inserted`, `updated` and `deleted` are counted in the images, and None once these are trimmed.
    """
    cur.execute(Q["change_sets"], {"batch_id": batch_id})
    found = documents(every(cur))
    return _all_counted(cur, found, found)


def newest_sets(cur: cursor, table: str, before: int | None, most: int, most_counted: int) -> list[Document]:
    """Returns a feed's newest change sets below the seq `before`, the newest first. Without it, the newest of all.

    `inserted`, `updated` and `deleted` are None once a set is trimmed, and behind `most_counted` changes of newer sets.
    """
    cur.execute(Q["sets"], {"target": table, "before": before, "most": most})
    found = documents(every(cur))
    ends = accumulate(each["changes"] for each in found)
    return _all_counted(cur, found, [each for each, end in zip(found, ends, strict=True) if end <= most_counted])


def set_of_feed(cur: cursor, table: str, seq: int) -> Document | None:
    """Returns one change set of a feed by its seq, without its counts."""
    cur.execute(Q["set_of_feed"], {"target": table, "seq": seq})
    found = documents(every(cur))
    return found[0] if found else None


def _all_counted(cur: cursor, found: list[Document], some: list[Document]) -> list[Document]:
    """Returns all sets that were found, some of them with their counts."""
    counts: dict[int, Document] = {}
    for name in {each["name"] for each in some if each["changes"]}:
        ids = [each["change_set_id"] for each in some if each["name"] == name]
        cur.execute(sql.SQL(Q["counts"]).format(images=table_name(f"{SCHEMA}.{name}")), {"sets": ids})
        counts |= {each.pop("change_set_id"): each for each in documents(every(cur))}
    return [_counted(each, counts) for each in found]


def _counted(found: Document, counts: dict[int, Document]) -> Document:
    counted = counts.get(found["change_set_id"]) or dict.fromkeys(_COUNTS, None if found["changes"] else 0)
    return {name: value for name, value in found.items() if name not in {"change_set_id", "name"}} | counted


def require_feed(cur: cursor, pipeline: str, table: str) -> Any:
    """Returns where a feed stands, its key, and for how long it is kept. Raises `Refusal` if the table has none."""
    cur.execute(Q["feed"], {"target": table})
    feed = maybe(cur)
    if feed is None:
        raise Refusal(f"{pipeline}: {table} has no feed yet", next_command=f"lockstep migrate {pipeline}")
    return feed


def _stands(feed: Any) -> Document:
    return {
        "target": feed.target,
        "kept_from": feed.kept_from,
        "next_number": feed.next_number,
        "last_seq": feed.last_seq,
        "timeline": feed.timeline,
    }


def _entries(images: Iterable[Any], key: tuple[str, ...], row_of: Callable[[str | None], Any]) -> list[Document]:
    """Returns one entry per change, with its row before and after. A row that was not there is null.

    An erased change has no key and no row any more.
    """
    entries: list[Document] = []
    for image in images:
        if image.change == "after":
            entries[-1]["after"] = row_of(image.row)
            continue
        row = None if image.change == "erased" else row_of(image.row)
        is_before = image.change in {"before", "delete"}
        entries.append(
            {
                "number": image.number,
                "seq": image.seq,
                "change": ENTRIES[image.change],
                "kind": image.kind,
                "batch": image.batch_id,
                "at": image.at,
                "key": row and {name: row[name] for name in key},
                "before": row if is_before else None,
                "after": None if is_before else row,
            }
        )
    return entries
