"""Tests that pointers and offsets move together: raw SQL, without the code's own checks."""

from __future__ import annotations

import os
from contextlib import closing, nullcontext

import psycopg2
import pytest
from psycopg2 import errors

from lockstep.adapters.postgres import COMMITTER, OWNER, connect
from support.fakes.ledger_rows import LedgerRows, commit_in
from support.scenes.undone import roles_that_may, undone

DOCUMENT = """insert into lockstep.definition (definition_hash, pipeline, document, code_version) values ('d1', 'orders',
    '{"target": [{"table": "public.o"}, {"table": "lockstep.sales.orders"}, {"table": "lockstep.sales.lines"}]}', '1')
    returning 1"""
TABLE = """insert into lockstep_lake.iceberg_tables values ('lockstep', 'sales', '{name}', 'l/{name}/metadata/0', null, 'TABLE')
    returning 1"""
PREFIX = """insert into lockstep.lake_prefix (batch_id, token, place, location)
    select %(b)s, %(t)s, {place}, format('l/%%s/data/lockstep/%%s.%%s', (array['orders', 'lines'])[{place}], %(b)s, %(t)s);"""
FILE = """insert into lockstep.lake_file (batch_id, token, place, path, rows, bytes, streams)
    values (%(b)s, %(t)s, {place}, '{path}', 1, 1, '{{}}');"""
MOVED = """insert into lockstep.lake_commit (batch_id, token, place, catalog, namespace, name, table_uuid, before, after,
        snapshot_id, added_files, removed_files, rewritten_files)
    values (%(b)s, %(t)s, {place}, 'lockstep', 'sales', '{name}', gen_random_uuid(),
        'l/{name}/metadata/0', 'l/{name}/metadata/1', 1, 1, 0, 0);"""
MOVE = """update lockstep_lake.iceberg_tables set previous_metadata_location = metadata_location,
    metadata_location = 'l/{name}/metadata/1' where table_name = '{name}';"""
BOTH = ((1, "orders"), (2, "lines"))


def told(place: int, name: str) -> str:
    return PREFIX.format(place=place) + MOVED.format(place=place, name=name)


def whole(place: int, name: str) -> str:
    return told(place, name) + MOVE.format(name=name)


@pytest.fixture(scope="module")
def lake(servers):
    """Returns the ledger and an attempt that fills one table and two of the lake. Every test takes back what it does."""
    with servers.database(f"lake_{os.getpid()}") as dsn, closing(connect(dsn)) as conn:
        ledger = LedgerRows(conn)
        s = ledger.stream(0)
        ledger.ask(DOCUMENT)
        for _, name in BOTH:
            ledger.ask(TABLE.format(name=name))
        b = ledger.planned({s: (0, 10)})
        yield ledger, {"s": s, "b": b, "t": ledger.opened(b)}


def committed(lake, before: str, role: str = OWNER) -> list[tuple]:
    """Commits the attempt behind these statements. Returns the moves of that transaction."""
    ledger, known = lake
    with undone(ledger.conn, OWNER) as cur:
        cur.execute(f"set local role {role}")
        cur.execute(before, known)
        cur.execute(f"set local role {OWNER}")
        commit_in(cur, known["b"], known["t"])
        cur.execute(
            "select name, before, after, role, xid = pg_current_xact_id() from lockstep.lake_pointer"
            " where before is not null order by id"
        )
        return [tuple(row) for row in cur.fetchall()]
    raise AssertionError


def test_offsets_and_both_pointers_move_in_one_transaction(lake):
    moves = committed(lake, "".join(whole(*each) for each in BOTH), COMMITTER)
    assert moves == [(name, f"l/{name}/metadata/0", f"l/{name}/metadata/1", COMMITTER, True) for _, name in BOTH]


# constraint → what comes before the rows of the commit
@pytest.mark.parametrize(
    "before",
    [
        "select 1",
        whole(1, "orders"),
        whole(1, "orders") + MOVE.format(name="lines"),
        whole(1, "orders") + told(2, "lines"),
        whole(1, "lines") + whole(2, "orders"),
    ],
    ids=["none", "one", "untold", "unmoved", "crossed"],
)
def test_pointer_with_offsets_refuses_offsets_whose_pointers_have_not_moved(lake, before):
    with pytest.raises(errors.CheckViolation, match="pointer_with_offsets") as refused:
        committed(lake, before)
    assert refused.value.diag.constraint_name == "pointer_with_offsets"


def test_pointer_with_offsets_refuses_a_pointer_that_moved_in_another_transaction(lake):
    ledger, _ = lake
    ledger.ask(MOVE.format(name="orders").replace(";", " returning 1"))
    try:
        with pytest.raises(errors.CheckViolation, match=r"pointer_with_offsets: .* lockstep\.sales\.orders"):
            committed(lake, told(1, "orders") + whole(2, "lines"))
    finally:
        ledger.ask(MOVE.format(name="orders").replace("/1", "/0").replace(";", " returning 1"))


@pytest.mark.parametrize("before", ["", told(1, "orders")], ids=["untold", "no-offsets"])
def test_offsets_with_pointer_refuses_what_the_committer_moves_alone(lake, before):
    ledger, known = lake
    refused_by_name = pytest.raises(errors.CheckViolation, match="offsets_with_pointer")
    with refused_by_name as refused, undone(ledger.conn, COMMITTER) as cur:
        cur.execute(before + MOVE.format(name="orders"), known)
    assert refused.value.diag.constraint_name == "offsets_with_pointer"


UUID = "11111111-1111-1111-1111-111111111111"
STEP = f"""insert into lockstep.lake_upkeep (commit_uuid, catalog, namespace, name, step, before, prefix)
    values ('{UUID}', 'lockstep', 'sales', 'orders', 'merge', 'l/orders/metadata/0', 'l/orders/data/lockstep/upkeep.{UUID}');"""
ENDED = f"update lockstep.lake_upkeep set ended_at = clock_timestamp() where commit_uuid = '{UUID}';"
SWEPT = f"update lockstep.lake_upkeep set swept_at = clock_timestamp() where commit_uuid = '{UUID}';"
DECIDED = f"""insert into lockstep.decision (pipeline, kind, who, why, detail) values ('orders', 'upkeep', 'me', 'upkeep',
    '{{"step": "merge", "table": "lockstep.sales.orders", "before": "l/orders/metadata/0",
    "after": "l/orders/metadata/{UUID}"}}');"""
KEPT = MOVE.format(name="orders").replace("/1", f"/{UUID}")


def test_the_committer_moves_a_pointer_beside_its_decision_of_upkeep(lake):
    ledger, known = lake
    with undone(ledger.conn, COMMITTER) as cur:
        cur.execute(STEP + ENDED + DECIDED + KEPT, known)
        cur.execute("select after, role from lockstep.lake_pointer order by id desc limit 1")
        assert tuple(cur.fetchone()) == (f"l/orders/metadata/{UUID}", COMMITTER)


@pytest.mark.parametrize(
    "statement",
    [
        STEP + ENDED + KEPT,
        DECIDED + KEPT,
        STEP + DECIDED + KEPT,
        STEP + ENDED + SWEPT + DECIDED + KEPT,
        STEP + ENDED + DECIDED.replace("sales.orders", "sales.lines") + KEPT,
        STEP + ENDED + DECIDED.replace("orders/metadata/0", "orders/metadata/9") + KEPT,
        STEP + ENDED + DECIDED.replace(f"metadata/{UUID}", "metadata/8") + KEPT,
        STEP + ENDED + DECIDED.replace("'upkeep',", "'pause',", 1) + KEPT,
        STEP.replace("'orders', 'merge'", "'lines', 'merge'").replace("l/orders", "l/lines") + ENDED + DECIDED + KEPT,
    ],
    ids=[
        "undecided",
        "no-step",
        "not-ended",
        "swept",
        "other-table",
        "other-before",
        "other-after",
        "other-kind",
        "other-step",
    ],
)
def test_offsets_with_pointer_refuses_upkeep_that_is_not_decided_and_prepared(lake, statement):
    ledger, known = lake
    with pytest.raises(errors.CheckViolation, match="offsets_with_pointer"), undone(ledger.conn, COMMITTER) as cur:
        cur.execute(statement, known)


@pytest.mark.parametrize(
    ("before", "within"), [(DECIDED, STEP + ENDED), (STEP + ENDED, DECIDED)], ids=["decided", "ended"]
)
def test_offsets_with_pointer_refuses_a_decision_and_a_step_of_another_transaction(servers, before, within):
    with servers.database(f"upkept_{len(before)}_{os.getpid()}") as dsn, closing(connect(dsn)) as conn:
        ledger = LedgerRows(conn)
        ledger.stream(0)
        ledger.ask(TABLE.format(name="orders"))
        ledger.ask(f"{before} select 1")
        with pytest.raises(errors.CheckViolation, match="offsets_with_pointer"), undone(conn, COMMITTER) as cur:
            cur.execute(within + KEPT)


def test_a_stranger_may_move_a_pointer_and_is_named(lake):
    ledger, known = lake
    with undone(ledger.conn, OWNER) as cur:
        cur.execute(MOVE.format(name="orders"), known)
        cur.execute(
            "select login = session_user, role, application from lockstep.lake_pointer order by id desc limit 1"
        )
        assert tuple(cur.fetchone()) == (True, OWNER, "lockstep")


TWICE = "".join(PREFIX.format(place=place) + FILE.format(place=place, path="a") for place in (1, 2))
REFUSED = [
    ("one_commit_moves_a_table_once", MOVE.format(name="orders") + MOVE.format(name="orders").replace("/1", "/2")),
    ("one_row_a_lake_file", TWICE),
    ("upkeep_ends_once", STEP + ENDED + ENDED.replace("clock_timestamp()", "null")),
    ("swept_when_ended", STEP + SWEPT),
    ("own_folder", PREFIX.format(place=1).replace("/data/lockstep/", "/data/")),
    ("own_folder", PREFIX.format(place=1) + "update lockstep.lake_prefix set location = 'l/lines' where place = 1"),
    ("own_folder", STEP.replace("l/orders/data", "l/lines/data")),
    (
        "own_folder",
        PREFIX.format(place=1) + "insert into lockstep.lake_prepared (commit_uuid, batch_id, token, place, before)"
        f" values ('{UUID}', %(b)s, %(t)s, 1, 'l/lines/metadata/0')",
    ),
    ("upkeep_is_told", DECIDED.replace('"before"', '"earlier"')),
]


@pytest.mark.parametrize(("name", "statement"), REFUSED, ids=[f"{name}-{n}" for n, (name, _) in enumerate(REFUSED)])
def test_a_constraint_of_the_lake_refuses_by_itself(lake, name, statement):
    ledger, known = lake
    with pytest.raises(psycopg2.Error) as refused, undone(ledger.conn, OWNER) as cur:
        cur.execute(statement, known)
    assert (refused.value.diag.constraint_name, name in str(refused.value)) == (name, True)


def alike(rows=(3, 3, 3), sums=(12, 12, 12), held=((3, 12), (3, 12)), stranger: str = "") -> str:
    """Returns what one read into all three tables tells: rows and sums by table, and those of its tasks' files."""
    said = "".join(
        "insert into lockstep.target_rows (batch_id, token, place, target, stream_id, rows, records, offsets) values"
        f" (%(b)s, %(t)s, {place}, '{target}', %(s)s, {rows[place]}, {rows[place]}, {sums[place]});"
        for place, target in enumerate(("public.o", "lockstep.sales.orders", "lockstep.sales.lines"))
    )
    files = "".join(
        FILE.replace("rows, bytes, streams)", "rows, bytes, streams, digests)")
        .replace("'{{}}')", "jsonb_build_object(%(s)s::text, '[{n}, {total}, 0, 0, 9]'::jsonb){other}, '{{}}')")
        .format(place=place, path=f"f{place}", n=n, total=total, other=stranger)
        for place, (n, total) in zip((1, 2), held, strict=False)
    )
    return said + files


@pytest.mark.parametrize(
    ("told", "refused"),
    [
        (alike(), False),
        (alike(held=()), False),  # all of them staged
        (alike(sums=("null", "null", "null"), held=()), False),  # a record may give any number of rows
        (alike(rows=(4, 3, 2), held=((3, 12), (2, 12))), True),
        (alike(sums=(13, 12, 12)), True),
        (alike(sums=(12, 13, 12), held=((3, 13), (3, 12))), True),
        (alike(held=((2, 12), (3, 12))), True),
        (alike(held=((3, 11), (3, 12))), True),
        (alike(held=((3, 12),)), True),
        (alike(stranger=""" || '{"999": [1, 1, 1, 1, 1]}'"""), True),
        (alike(sums=("null", "null", "null")), True),
    ],
    ids=[
        *("alike", "all-staged", "any-number", "other-number", "other-staged", "other-lake", "fewer-in-file"),
        *("other-in-file", "no-file", "strange-stream", "not-told"),
    ],
)
def test_tables_agree_refuses_a_commit_whose_tables_have_not_the_same_records(lake, told, refused):
    ledger, known = lake
    named = pytest.raises(errors.CheckViolation, match="tables_agree") if refused else nullcontext()
    with named, undone(ledger.conn, OWNER) as cur:
        cur.execute("".join(whole(*each) for each in BOTH) + told, known)
        commit_in(cur, known["b"], known["t"], delivered=9)


def test_no_role_of_a_run_makes_or_rewrites_a_move(lake):
    ledger, known = lake
    for statement, may in (
        ("insert into lockstep.lake_pointer (catalog, namespace, name, role) values ('a', 'b', 'c', 'd')", set()),
        ("update lockstep.lake_pointer set after = 'x'", set()),
        ("delete from lockstep.lake_pointer", set()),
        ("update lockstep.lake_commit set after = 'x'", set()),
        ("update lockstep.lake_file set rows = 2", set()),
        ("insert into lockstep_lake.iceberg_tables values ('lockstep', 'a', 'b')", set()),
        ("delete from lockstep_lake.iceberg_tables", set()),
        ("update lockstep_lake.iceberg_tables set table_name = 'x'", set()),
        ("update lockstep.lake_prefix set swept_at = now()", {COMMITTER}),
        ("update lockstep.lake_upkeep set ended_at = now()", {COMMITTER}),
        ("update lockstep.lake_upkeep set prefix = 'x'", set()),
        ("update lockstep.lake_gone set path = 'x'", set()),
        ("delete from lockstep.lake_gone", set()),
    ):
        assert roles_that_may(ledger.conn, statement, known) == may, statement
