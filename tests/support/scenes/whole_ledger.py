"""Fills each table of a ledger, so that statements have rows to change: batches in each state, and a row of each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import OWNER, transaction
from lockstep.core.pipeline.definition import Feed, Json, Pipeline, Send, Topic, Upsert
from lockstep.ledger.feed.make import make_feeds
from lockstep.ledger.feed.sends import tables_of_sends
from support.fakes.ledger_rows import LedgerRows, commit_in

if TYPE_CHECKING:
    from psycopg2.extensions import connection, cursor

ROWS = """_stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null"""
TARGET = f"""create table public.orders (id text primary key, n int, {ROWS});
    alter table public.orders owner to lockstep_targets;
    insert into lockstep.target_owner (store, target, pipeline) values ('', 'public.orders', 'orders')"""
ORDERS = Pipeline(
    "orders", "orders.v1", Json("id string, n int"), Upsert("public.orders", key=("id",), feed=Feed("2 days"))
)
SENT = Pipeline("others", "others.v1", Json("id string, n int"), Send(Topic("clean.v1")))
TABLE = "lockstep_send.clean_v1"
GRANTS = f"""grant select, insert, update, delete on {TABLE} to lockstep_committer;
    grant select on {TABLE} to lockstep_reader, lockstep_planner, lockstep_stager"""
# What a column of this name gets, where a table has no row yet.
BY_NAME = {
    "batch_id": "{b}",
    "token": "{t}",
    "stream_id": "{s}",
    "pipeline": "'orders'",
    "target": "'public.orders'",
    "definition_hash": "'d1'",
    "offsets": "'[2, 5)'",
    "key": """'["a"]'""",
    "lane": "'replay'",
    "who": "'me'",
    "decision_id": "(select max(decision_id) from lockstep.decision)",
    "why": "'because'",
    "catalog": "'lockstep'",
    "place": "1",
    "namespace": "'sales'",
    "name": "'orders'",
    "sha256": "repeat('0', 64)",
    "step": "'merge'",
    "before": "'l/orders/metadata/0'",
    "after": "'l/orders/metadata/1'",
    "salt": "sha256('a')",
    "location": "'l/orders/data/lockstep/{b}.{t}'",
    "erasure_id": "1",
    "prefix": "'l/orders/data/lockstep/upkeep.1'",
    "path": "'orders/0/file'",
    "from_offset": "0",
    "until_offset": "5",
    "cluster_id": "'c'",
    "topic_id": "'topic-1'",
    "partitions": "1",
    "request_id": "{r}",
}
# And where its table asks for another value.
BY_COLUMN = {
    "spark_run.place": "'local'",
    "lake_gone.path": "'l/orders/data/old'",
    "relay.intent": "9",
    "relay.confirmed": "1",
    "erasure.digest": "repeat('0', 64)",
    "hour_changed.erasure_id": "null",
    "link.decision_id": "null",
    "attempt.unit": "'batch'",
    "iceberg_tables.catalog_name": "'lockstep'",
    "iceberg_tables.table_namespace": "'sales'",
    "iceberg_tables.table_name": "'orders'",
    "iceberg_tables.metadata_location": "'l/orders/metadata/1'",
    "iceberg_tables.previous_metadata_location": "'l/orders/metadata/0'",
    "unsealed.decision_id": "null",
    "lifted.offsets": "'[20, 22)'",
    **dict.fromkeys(
        ("reject.emptied_at", "reject.removed_digest", "verdict.erased_digest", "rehearsal.erased_digest"), "null"
    ),
    "window_state.ends": "'2026-05-01 10:00+00'",
    "hidden_batch.batch_id": "{later}",
    "trimmed.offsets": "'{{[2, 5)}}'",
    "target_rows.offsets": "1",
    "source_manifest.rejected": "0",
}
BY_TYPE = {
    "bigint": "1",
    "integer": "1",
    "numeric": "0",
    "text": "'x'",
    "boolean": "false",
    "uuid": "gen_random_uuid()",
    "timestamp with time zone": "'2026-05-01 10:00+00'",
    "jsonb": "'{{}}'",
    "json": "'{{}}'",
    "bytea": "'a'",
    "text[]": "'{{}}'",
    "interval": "'1 day'",
    "name": "'lockstep'",
    "double precision": "1",
    "inet": "'::1'",
    "int8range": "'[0, 5)'",
    "int8multirange": "'{{[0, 5)}}'",
    "xid8": "'1'",
    "oid": "1",
    "character varying": "'x'",
}
ERASURE_DECIDED = """insert into lockstep.decision (pipeline, kind, who, why, detail)
    select pipeline, 'erase', 'me', 'x', jsonb_build_object('erasure', erasure_id, 'key', digest, 'erased', '')
    from lockstep.erasure"""
RELAY_UNDER_WAY = """insert into lockstep.relay (target, topic, transactional_id, cluster_id, topic_id, partitions,
    token, began_at, confirmed, intent) values ('public.orders', 'sink', 'lockstep.0.orders', 'c', 't', 1, 1, 0, 1, 9)"""
EMPTY = """select c.oid::regclass::text as name, c.relname from pg_class c
    where c.relnamespace in ('lockstep'::regnamespace, 'lockstep_lake'::regnamespace) and c.relkind = 'r'
      and (xpath('/row/n/text()', query_to_xml(
        format('select count(*) as n from %s', c.oid::regclass), false, true, '')))[1]::text = '0'"""
COLUMNS = """select a.attname, format_type(a.atttypid, null) as type from pg_attribute a
    where a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped
      and a.attidentity = ''
      and not exists (select from pg_attrdef d where d.adrelid = a.attrelid and d.adnum = a.attnum)"""


def whole_ledger(conn: connection) -> dict[str, Any]:
    """Makes two pipelines: committed, planned and open batches, a replay, losses, rejects, a deletion, feeds and a lake table.

    Returns the ids of the first: its stream `s`, a committed batch `b` with its attempt `t`, and `later` with `t2` under way.
    """
    orders, others = LedgerRows(conn), LedgerRows(conn, "others")
    s, other = orders.stream(0), others.stream(1, topic_id="topic-2")
    orders.retired(orders.stream(5))
    feeds_in(conn)
    b, t = _told(orders, s, "public.orders")
    b2, _ = _told(others, other, TABLE)
    orders.covered(s, 10, 12, "skipped")
    orders.covered(s, 12, 14, "loss")
    later = orders.planned({s: (14, 24)}, key="call-1")
    known = {"s": s, "b": b, "t": t, "other": other, "later": later, "t2": orders.opened(later, staging=True)}
    known["replay"] = others.planned({other: (0, 10)}, lane="replay")
    others.ask(
        "update lockstep.claim set expects = 'batch', expects_batch = %(b)s where batch_id = %(r)s returning 1",
        b=b2,
        r=known["replay"],
    )
    with transaction(conn, "lockstep_stager") as cur:
        cur.execute("insert into lockstep_staging.attempt_{later}_{t2} values ({s})".format(**known))
    known["r"] = orders.ask("select max(request_id) from lockstep.request")[0][0]
    return known


def feeds_in(conn: connection) -> None:
    """Makes a table with a feed, and one whose rows are sent."""
    with transaction(conn, OWNER) as cur:
        cur.execute(TARGET)
        make_feeds(cur, ORDERS)
        cur.execute(tables_of_sends(cur, SENT, [SENT.columns]))
        cur.execute("insert into lockstep.target_owner (store, target, pipeline) values ('', %s, 'others')", (TABLE,))
        make_feeds(cur, SENT)
        cur.execute(GRANTS)  # as migrate does
    with transaction(conn, OWNER) as cur:
        cur.execute("select lockstep.manual_change('public.orders', 'the first row')")
        cur.execute("insert into public.orders values ('a', 1, 1, 0, 0, 0)")


def _told(orders: LedgerRows, stream: int, table: str) -> tuple[int, int]:
    batch = orders.planned({stream: (0, 10)})
    token = orders.opened(batch)
    with transaction(orders.conn, OWNER) as cur:
        cur.execute("insert into lockstep.change_set (target, kind, batch_id) values (%s, 'batch', %s)", (table, batch))
        cur.execute(
            f"insert into {table} (id, n, _stream, _offset, _ordinal, _batch) values ('b', 1, %s, 3, 0, %s)",
            (stream, batch),
        )
        cur.execute("select lockstep.number_changes()")
        commit_in(cur, batch, token, rejected=1)
    return batch, token


def fill(cur: cursor, known: dict[str, Any]) -> list[str]:
    """Puts a row into each table that is still empty, as a superuser and without triggers. Returns their names."""
    cur.execute("set session_replication_role = replica")
    cur.execute(EMPTY)
    filled = cur.fetchall()
    for name, short in filled:
        cur.execute(COLUMNS, (name,))
        values = {
            column: BY_COLUMN.get(f"{short}.{column}") or BY_NAME.get(column) or BY_TYPE[type_]
            for column, type_ in cur.fetchall()
        }
        names = ", ".join(f'"{column}"' for column in values)
        cur.execute(f"insert into {name} ({names}) values ({', '.join(values.values()).format(**known)})")
    cur.execute(ERASURE_DECIDED)
    cur.execute(RELAY_UNDER_WAY)
    cur.execute("reset session_replication_role")
    return [name for name, _ in filled]
