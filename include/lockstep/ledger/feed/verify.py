"""Checks a feed: its numbers, the commits that it tells of, and its table against the folded images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.core.feed.feeds import SCHEMA, feed_name
from lockstep.core.pipeline.targets import ORIGIN, row_key
from lockstep.core.proof.verification import PromiseCheck, Wrong
from lockstep.ledger.exact_rows import with_texts
from lockstep.ledger.proof.verify import first_wrong
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import maybe

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Target

Q = queries("lockstep.ledger.feed", "verify")
FOLDED = "the table is its feed folded"
FEED_CHECKS = {
    "the feed's numbers have no gap": "numbers_with_gaps",
    "every commit told each feed": "commits_not_told",
    FOLDED: "not_folded",
}
FEED_COLUMNS = ("_change", "_change_set", "_ordinal_in_set", "_batch", *ORIGIN)


def feed_checks(cur: cursor, pipeline: str, target: Target) -> list[PromiseCheck]:
    """Returns the checks of a target's feed. A target without a feed has none.

    Compares older rows, and those with trimmed changes, only by what the feed keeps of their keys.
    """
    if target.feed is None:
        return []
    cur.execute(Q["misses"], {"target": target.table})
    feed = maybe(cur)
    if feed is None or feed.misses:
        return [
            PromiseCheck(FOLDED, ok=False, detail=f"{target.table}: {feed.misses if feed else 'it has no feed yet'}")
        ]
    checks = []
    for name, query in FEED_CHECKS.items():
        checks.append(_wrong_in(cur, query, pipeline, target, is_whole=feed.whole).check(name))
    return checks


def other_rows(cur: cursor, pipeline: str, target: Target) -> Wrong:
    """Returns the rows that are not what the kept changes of their keys have left."""
    return _wrong_in(cur, FEED_CHECKS[FOLDED], pipeline, target, is_whole=False)


def _wrong_in(cur: cursor, query: str, pipeline: str, target: Target, *, is_whole: bool) -> Wrong:
    keys = row_key(target)
    table, images = table_name(target.table), table_name(f"{SCHEMA}.{feed_name(target.table)}")
    parts = {
        "images": images,
        "image_rows": with_texts(cur, images),
        "target_rows": with_texts(cur, table),
        "image_keys": sql.SQL(", ").join(sql.Identifier("i", key) for key in keys),
        "row_keys": sql.SQL(", ").join(sql.Identifier("t", key) for key in keys),
    }
    values = {
        "pipeline": pipeline,
        "target": target.table,
        "whole": is_whole,
        "ours": [column for column in FEED_COLUMNS if column not in keys],
    }
    return first_wrong(cur, sql.SQL(Q[query]).format(**parts), values)
