"""Takes a key out of feeds: changes keep their numbers, and lose the rows that hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.core.feed.feeds import SCHEMA, feed_name
from lockstep.ledger.exact_rows import with_texts
from lockstep.ledger.feed.verify import FEED_COLUMNS
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Pipeline, Target

Q = queries("lockstep.ledger.feed", "blank")


def blank_images(cur: cursor, erasure_id: int, targets: Sequence[Target], key: str) -> dict[str, int]:
    """Takes a key's rows out of the targets' feeds. Returns, per table with a feed, how many changes still wait.

    A row's changes wait until all of them are sent. Needs numbered change sets, and an erasure without a decision yet.
    """
    waiting = {}
    for target in targets:
        if target.feed is not None:
            cur.execute(Q["blank_images"], {"erasure_id": erasure_id, "target": target.table, "key": key})
            waiting[target.table] = int(one(cur).waiting)
    return waiting


def left_in_feeds(cur: cursor, pipeline: Pipeline, pattern: str, waiting: Mapping[str, int]) -> list[str]:
    """Names in words each feed with changes that hold the key, and the next step. Call it as the reader."""
    found = []
    for target in pipeline.targets:
        if target.feed is None:
            continue
        waits = waiting[target.table]
        if waits:
            found.append(
                f"{waits} changes in the feed of {target.table}, until they are sent: lockstep relay {pipeline.name}, then "
                "the same erase again"
            )
        images = table_name(f"{SCHEMA}.{feed_name(target.table)}")
        values = {"pattern": pattern, "ours": list(FEED_COLUMNS)}
        cur.execute(sql.SQL(Q["still_in_feed"]).format(rows=with_texts(cur, images)), values)
        others = one(cur).changes - waits
        if others > 0:
            found.append(
                f"{others} changes in the feed of {target.table}, in another column or of another pipeline, until they are "
                f"older than {target.feed.keep}"
            )
    return found


def erased_numbers(cur: cursor, table: str, begin: int) -> set[int]:
    """Returns the changes of a feed, from a number on, that an erasure took a row out of."""
    cur.execute(Q["erased_numbers"], {"target": table, "begin": begin})
    return {row.number for row in every(cur)}
