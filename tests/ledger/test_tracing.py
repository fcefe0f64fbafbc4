"""Tests the way from an offset to its batch and rows, and back, over hand-written ledger rows and a target."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from lockstep.adapters.postgres import connect, transaction
from lockstep.core.errors import Refusal
from lockstep.core.pipeline.definition import Append, Json, Pipeline, Upsert
from lockstep.ledger.views import tracing
from simulation.world import World
from support.fakes.ledger_rows import read

ORDERS = Pipeline("orders", "orders.v1", Json("id string, n int", key="id"), Upsert("public.orders", ("id",)))
APPENDED = Pipeline("orders", "orders.v1", Json("id string, n int"), Append("public.orders"))
TARGET = """
create table public.orders (id text primary key, n int, _stream int4, _offset int8, _ordinal int4, _batch int8);
grant select on public.orders to lockstep_reader;
"""


@pytest.fixture
def target(conn):
    with transaction(conn, None) as cur:
        cur.execute(TARGET)

    def insert(*row: Any) -> None:
        with transaction(conn, None) as cur:
            cur.execute("insert into public.orders values (%s, %s, %s, %s, 0, %s)", row)

    return insert


def test_lineage_leads_from_an_offset_to_its_batch_attempt_run_and_rows(conn, ledger, target):
    stream = ledger.stream(3)
    batch = ledger.planned({stream: (0, 10)})
    token = ledger.opened(batch, "scheduled-7")
    ledger.committed(batch, token)
    target("o1", 5, stream, 4, batch)

    assert read(conn, tracing.outcome_of_record, ORDERS, 3, 4) == {
        "topic": "orders.v1",
        "partition": 3,
        "offset": 4,
        "batch": batch,
        "attempt": token,
        "dag_id": "orders",
        "dag_run_id": "scheduled-7",
        "coverage": "batch",
        "rows": [{"id": "o1", "n": 5, "_stream": stream, "_offset": 4, "_ordinal": 0, "_batch": batch}],
        "reject": None,
        "erased": None,
    }


@pytest.mark.usefixtures("target")
def test_lineage_of_a_reject_gives_its_reason(conn, ledger):
    stream = ledger.stream(0)
    batch, _ = ledger.done({stream: (0, 10)}, rejected=1)
    ledger.ask(
        """insert into lockstep.reject (stream_id, "offset", batch_id, reason)
        values (%(s)s, 2, %(b)s, 'no JSON') returning 1""",
        s=stream,
        b=batch,
    )
    told = read(conn, tracing.outcome_of_record, ORDERS, 0, 2)
    assert (told["coverage"], told["reject"]["reason"], told["rows"]) == ("batch", "no JSON", [])


@pytest.mark.usefixtures("target")
@pytest.mark.parametrize(
    ("offset", "coverage"), [(10, "loss"), (15, "skipped"), (20, "uncovered"), (10**12, "uncovered")]
)
def test_lineage_of_offsets_that_no_batch_covers_names_none(conn, ledger, offset, coverage):
    stream = ledger.stream(0)
    ledger.done({stream: (0, 10)})
    ledger.covered(stream, 10, 15, "loss")
    ledger.covered(stream, 15, 20, "skipped")
    told = read(conn, tracing.outcome_of_record, ORDERS, 0, offset)
    assert (told["coverage"], told["batch"], told["attempt"], told["rows"]) == (coverage, None, None, [])


@pytest.mark.usefixtures("target")
@pytest.mark.parametrize(
    ("pipeline", "delivered", "offset", "coverage"),
    [
        (ORDERS, 8, 9, "gap in the log"),  # past the last record that was delivered
        (ORDERS, 8, 3, "batch"),  # an upsert's record may have been superseded since: nothing is known
        (ORDERS, 10, 3, "batch"),  # every offset was delivered
        (APPENDED, 8, 3, "gap in the log"),  # an appended record that nothing filtered would have a row
        (ORDERS, 0, 3, "gap in the log"),  # nothing was delivered at all
    ],
)
def test_a_gap_in_the_log_is_named_where_the_counts_prove_it(conn, ledger, pipeline, delivered, offset, coverage):
    ledger.done({ledger.stream(0): (0, 10)}, delivered=delivered)
    assert read(conn, tracing.outcome_of_record, pipeline, 0, offset)["coverage"] == coverage


def test_lineage_of_an_unknown_partition_names_the_known_ones(conn, ledger):
    ledger.stream(0)
    ledger.stream(2)
    with pytest.raises(Refusal, match="partition 5 has no stream; there are: 0, 2"):
        read(conn, tracing.outcome_of_record, ORDERS, 5, 0)


@pytest.mark.usefixtures("target")
def test_lineage_looks_at_todays_log_first(conn, ledger):
    old = ledger.stream(0)
    ledger.done({old: (0, 50)})
    ledger.retired(old)
    ledger.stream(0, incarnation=1, epoch=1)
    assert read(conn, tracing.outcome_of_record, ORDERS, 0, 4)["coverage"] == "uncovered"


def test_a_missing_target_is_named_with_the_command_that_makes_it(conn, ledger):
    ledger.done({ledger.stream(0): (0, 50)})
    with pytest.raises(Refusal, match=r"orders: the target public\.orders is not migrated") as refused:
        read(conn, tracing.outcome_of_record, ORDERS, 0, 4)
    assert refused.value.next_command == "lockstep migrate orders"


def test_blame_leads_from_a_key_to_its_record(conn, ledger, target):
    stream = ledger.stream(1)
    batch, token = ledger.done({stream: (0, 10)})
    target("o'1", 5, stream, 4, batch)
    told = read(conn, tracing.record_of_row, ORDERS, ["o'1"])
    assert (told["partition"], told["offset"], told["batch"], told["attempt"]) == (1, 4, batch, token)
    assert (told["row"]["n"], told["deleted"]) == (5, False)


def test_blame_of_an_accumulated_row_tells_what_adds_up_to_it_the_newest_first(database, tmp_path):
    world = World(database, tmp_path, kind="accumulated")
    world.log.produce(0, 5, keys=1)
    world.run()
    world.log.produce(0, 2, keys=1)
    world.log.produce(1, 4, keys=1)
    world.run()
    with closing(connect(database)) as conn:
        told = read(conn, tracing.record_of_row, world.pipeline, ["0"])

    assert (told["partition"], told["offset"], told["batch"]) == (1, 3, 2)
    segments = [(c["batch"], c["partition"], c["from_offset"], c["until_offset"]) for c in told["contributions"]]
    assert segments == [(2, 1, 0, 4), (2, 0, 5, 7), (1, 0, 0, 5)]
    assert told["row"]["records"] == sum(c["records"] for c in told["contributions"]) == 11
    assert told["row"]["total"] == sum(c["totals"]["total"] or 0 for c in told["contributions"])
    world.close()


@pytest.mark.usefixtures("target")
def test_blame_of_a_deleted_row_leads_to_the_tombstone(conn, ledger):
    stream = ledger.stream(1)
    batch, token = ledger.done({stream: (0, 10)})
    ledger.ask(
        """insert into lockstep.tombstone (target, key, stream_id, "offset") values ('public.orders', '["o1"]', %(s)s, 9)
        returning 1""",
        s=stream,
    )
    told = read(conn, tracing.record_of_row, ORDERS, ["o1"])
    assert (told["row"], told["deleted"], told["offset"], told["batch"], told["attempt"]) == (
        None,
        True,
        9,
        batch,
        token,
    )


@pytest.mark.usefixtures("target")
@pytest.mark.parametrize(
    ("pipeline", "key", "message"),
    [
        (ORDERS, ["nobody"], "the row with id = 'nobody' is not there"),
        (ORDERS, ["a", "b"], r"the key is \(id\), 2 of 1 values are given"),
        (APPENDED, ["a"], "is appended to, its rows have no key"),
        (
            Pipeline("orders", "orders.v1", Json("n int"), Upsert("public.orders", ("n",))),
            ["x"],
            "invalid input syntax",
        ),
    ],
)
def test_blame_refuses_in_one_line(conn, pipeline, key, message):
    with pytest.raises(Refusal, match=message):
        read(conn, tracing.record_of_row, pipeline, key)
