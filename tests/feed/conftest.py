from __future__ import annotations

from contextlib import closing

import pytest

from lockstep.adapters.postgres import OWNER, connect, transaction
from lockstep.core.pipeline.definition import Feed, Json, Pipeline, Upsert
from lockstep.ledger.feed.make import make_feeds
from simulation.scene import Scene
from support.fakes.ledger_rows import LedgerRows

TABLE = """create table public.orders (id text primary key, n int, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null); alter table public.orders owner to lockstep_targets"""
ORDERS = Pipeline(
    "orders", "orders.v1", Json("id string, n int"), Upsert("public.orders", key=("id",), feed=Feed("2 days"))
)


class Followed(Scene):
    """A scene whose targets have feeds."""

    feed = Feed()


@pytest.fixture
def followed(database, tmp_path):
    """Returns `followed(kind, guarantee)`: a scene whose targets have feeds."""
    made = []

    def make(kind: str = "keyed", guarantee=None) -> Followed:
        made.append(Followed(database, tmp_path, kind=kind, guarantee=guarantee))
        return made[-1]

    yield make
    for each in made:
        each.end()


@pytest.fixture
def ledger(database):
    with closing(connect(database)) as conn:
        yield LedgerRows(conn)


@pytest.fixture
def orders(ledger):
    """Makes the feed of an upserted table, told of one change by a person. Returns a planned batch and its stream."""
    s = ledger.stream(0)
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(TABLE)
        cur.execute(
            "insert into lockstep.target_owner (store, target, pipeline) values ('', 'public.orders', 'orders')"
        )
        make_feeds(cur, ORDERS)
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute("select lockstep.manual_change('public.orders', 'the first row')")
        cur.execute("insert into public.orders values ('a', 1, %s, 0, 0, 0)", (s,))
    return {"s": s, "b": ledger.planned({s: (0, 10)})}
