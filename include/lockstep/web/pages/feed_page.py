"""Renders a feed: its figures, its relay and its change sets. Renders one set, change by change, too."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from fastapi import HTTPException

from lockstep.core.errors import Refusal
from lockstep.core.feed.relaying import RelayLook
from lockstep.core.pipeline.names import pipeline_of_dag
from lockstep.ledger.feed import reading
from lockstep.ledger.feed.outgoing import Outgoing
from lockstep.ledger.views import overview
from lockstep.steps.feed.look_at_relay import look_at_relay
from lockstep.web.pictures.feed_bars import numbers_line, set_bars
from lockstep.web.place import (
    ASKING,
    connection_broker,
    page_session,
    reading_ledger,
    remembered,
    require_pipeline,
)
from lockstep.web.render import page, writable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.ledger.views.reading import Document

SETS_PER_PAGE = 50
MOST_COUNTED = 200_000  # changes of a page's sets: more would take the server too long to count
CHANGES_PER_PAGE = 50
MOST_OF_A_VALUE = 2_000  # characters


def feed_page(dag_id: str, table: str, before: int | None) -> str:
    """Renders one feed of the DAG's pipeline, with its change sets below the seq `before`, the newest first."""
    name = pipeline_of_dag(dag_id)
    with reading_ledger() as cur:
        feeds = _feeds(cur, name)
        if feeds:
            feed = _chosen(name, feeds, table)
            known = reading.require_feed(cur, name, feed["target"])
            sets = reading.newest_sets(cur, feed["target"], before, SETS_PER_PAGE + 1, MOST_COUNTED)
    if not feeds:
        require_pipeline(name)
        return page("feed.html.jinja", dag_id=dag_id, pipeline=name, feed=None)
    shown = sets[:SETS_PER_PAGE]
    return page(
        "feed.html.jinja",
        dag_id=dag_id,
        pipeline=name,
        feeds=feeds,
        feed=feed,
        known=known,
        sets=shown,
        before=before,
        more=len(sets) > SETS_PER_PAGE,
        relay=_looked_at(name, feed) if feed["topic"] else None,
        line=numbers_line(feed),
        bars=set_bars(shown, feed["confirmed"], SETS_PER_PAGE),
        most_counted=MOST_COUNTED,
    )


def change_set_page(dag_id: str, table: str, seq: int, begin: int | None) -> str:
    """Renders the changes of one set, each with its row before and after, from the number `begin` on."""
    name = pipeline_of_dag(dag_id)
    with reading_ledger() as cur:
        feeds = _feeds(cur, name)
        if not feeds:
            require_pipeline(name)
        feed = _chosen(name, feeds, table)
        found = reading.set_of_feed(cur, feed["target"], seq)
        if found is None:
            last = f"the last one is {feed['last_seq']}" if feed["last_seq"] else "it has none yet"
            raise HTTPException(404, f"The feed of {feed['target']} has no change set {seq}: {last}.")
        first, end = found["first_number"], found["first_number"] + found["changes"]
        number = first if begin is None else begin
        if not first <= number <= end:
            raise HTTPException(404, f"Change set {seq} of {feed['target']} has the changes [{first}, {end}).")
        changes = []
        if not found["is_trimmed"] and number < end:
            limit = min(CHANGES_PER_PAGE, end - number)
            changes = reading.read_changes(cur, name, feed["target"], number, limit)["changes"]
        order = [name for name, _ in Outgoing.of(cur, feed["target"], "row", ()).columns]
        keep = reading.require_feed(cur, name, feed["target"]).keep
    return page(
        "change_set.html.jinja",
        dag_id=dag_id,
        pipeline=name,
        feed=feed,
        keep=keep,
        found=found,
        changes=[_change(each, order) for each in changes],
        begin=number,
        end=end,
        most=CHANGES_PER_PAGE,
    )


def _feeds(cur: Any, name: str) -> list[Document]:
    (row,) = overview.pipelines(cur, [name])
    feeds: list[Document] = row.feeds
    return feeds


def _chosen(name: str, feeds: Sequence[Document], table: str) -> Document:
    """Returns the feed of that table, or without a table the first one."""
    for feed in feeds:
        if table in {"", feed["target"]}:
            return feed
    which = f"target {table}" if table else "target"
    raise HTTPException(404, f"No {which} of {name} has a feed.")


def _looked_at(name: str, feed: Document) -> RelayLook:
    """Returns what Kafka said of the relay some seconds ago."""
    ask = partial(_look, name, feed["target"])
    found: RelayLook | None = remembered(f"relay {name} {feed['target']}", ask)
    return found or RelayLook(unknown=ASKING)


def _look(name: str, table: str) -> RelayLook:
    try:
        with page_session() as conn:
            return look_at_relay(conn, connection_broker(), name, table)
    except Refusal as refusal:
        return RelayLook(unknown=refusal.message)


def _change(change: Document, order: Sequence[str]) -> Document:
    """Returns a change with its columns in the table's order. An erased one has none."""
    before, after = change["before"] or {}, change["after"] or {}
    columns = [
        {
            "name": name,
            "before": _readable(before.get(name)) if before else None,
            "after": _readable(after.get(name)) if after else None,
            "differs": bool(before and after) and before.get(name) != after.get(name),
        }
        for name in order
        if name in before or name in after
    ]
    key = ", ".join(_readable(value) for value in (change["key"] or {}).values())
    return change | {"key": key, "columns": columns}


def _readable(value: Any) -> str:
    """Returns a value of an image as text, shortened if it is long."""
    if value is None:
        return "null"
    text = writable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= MOST_OF_A_VALUE else f"{text[:MOST_OF_A_VALUE]}... ({len(text):,} characters)"
