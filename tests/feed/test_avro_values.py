"""Tests that values in Avro are the table's rows to the digit, and that a schema that does not fit is told by its column."""

from __future__ import annotations

import io
import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_reader
from psycopg2.extensions import TRANSACTION_STATUS_IDLE

from feed.sending import Sending, read_topic, sent_to
from lockstep.adapters.postgres import OWNER, transaction
from lockstep.core.errors import BadDefinition, Refusal, Unreachable
from lockstep.core.feed.avro import TableColumn, first_difference, schema_of_feed
from lockstep.core.pipeline.definition import Avro
from lockstep.core.registry import registry as registry_of
from lockstep.ledger.feed import outgoing
from lockstep.ledger.feed.make import follow
from lockstep.steps.feed import relay
from lockstep.steps.feed.values import register_schemas
from support.fakes.registry import a_registry


@pytest.fixture
def registry():
    with a_registry() as found:
        yield found


@pytest.fixture
def sending(database, kafka, topic, registry):
    """Returns `sending(shape)`: a table whose feed goes to a topic in Avro, with its schema registered."""

    def make(shape: str = "row", *, registered: bool = True) -> Sending:
        here = Sending(database, kafka, sent_to(topic(partitions=1), shape, Avro(subject="orders-value")))
        here.at.find_registry = lambda: registry_of(registry.url, {}, str)
        here.make()
        if registered:
            register_schemas(here.at.conn, here.pipeline, here.at.find_registry)
        return here

    return make


def values(here: Sending, registry) -> list:
    """Returns the values in the topic, as another program's decoder reads them."""
    found = []
    for _, value, _ in read_topic(here.kafka, here.topic)[0]:
        if value is None:
            found.append(None)
            continue
        assert value[:1] == b"\x00"
        schema = json.loads(registry.schemas[int.from_bytes(value[1:5], "big") - 1]["schema"])
        found.append(schemaless_reader(io.BytesIO(value[5:]), parse_schema(schema), None))
    return found


def test_e19_avro_values_are_exact_and_times_are_in_utc(sending, registry):
    here = sending()
    price = Decimal("123456789012345678.123456789012")
    here.change(
        ("ä\"'\n", 1, price, "2026-05-01 12:00:00.25+02", b"\x00\xff", 0.1), ("minus", -2, Decimal("-0.000000000001"))
    )
    here.change(("none", None), gone=("minus",))

    assert here.relay().sent == 4

    full = {"id": "ä\"'\n", "n": 1, "price": price, "raw": b"\x00\xff", "share": 0.1}
    full["at"] = datetime(2026, 5, 1, 10, 0, 0, 250_000, UTC)
    empty = {"id": "none", **dict.fromkeys(("n", "price", "at", "raw", "share"))}
    minus = empty | {"id": "minus", "n": -2, "price": Decimal("-0.000000000001")}
    assert sorted(values(here, registry), key=lambda row: row["id"] if row else "") == [None, minus, empty, full]
    assert here.relay().sent == 0


def test_e19_a_time_of_fewer_digits_is_a_time_in_avro(sending, registry):
    here = sending(registered=False)
    with transaction(here.at.conn, OWNER) as cur:
        cur.execute("alter table public.orders alter at type timestamptz(3)")
        follow(cur, "public.orders")
    register_schemas(here.at.conn, here.pipeline, here.at.find_registry)
    here.change(("a", 1, None, "2026-05-01 12:00:00.25+02"))
    assert here.relay().sent == 1
    assert [row["at"] for row in values(here, registry)] == [datetime(2026, 5, 1, 10, 0, 0, 250_000, UTC)]


@pytest.mark.parametrize(
    ("written", "type_"),
    [
        ("numeric(12,2)", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}),
        ("numeric(2,2)", {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 2}),
        ("numeric(2,3)", "string"),
        ("numeric(2,-3)", "string"),
        ("numeric", "string"),
        ("timestamp(0) with time zone", {"type": "long", "logicalType": "timestamp-micros"}),
        ("timestamp(3) without time zone", "string"),
    ],
)
def test_a_column_has_a_type_of_avro_that_holds_it(written, type_):
    assert TableColumn("a", written).avro == type_


def test_e19_documents_in_avro_have_the_row_before_and_after_and_where_it_comes_from(sending, registry):
    here = sending("change")
    here.change(("a", 1))
    here.change(("a", 2))
    here.change(gone=("a",))

    here.relay()

    told = values(here, registry)
    ops = [each and (each["op"], *(row and row["n"] for row in (each["before"], each["after"]))) for each in told]
    assert ops == [("insert", None, 1), ("update", 1, 2), ("delete", 2, None), None]
    source = told[1]["source"]
    assert (source["target"], source["number"], source["seq"], source["kind"], source["batch"]) == (
        "public.orders", 1, 2, "manual", None,
    )  # fmt: skip
    assert source["at"].tzinfo is UTC or source["at"].utcoffset().total_seconds() == 0


def test_a_schema_that_is_not_registered_sends_nothing_and_names_the_command(sending):
    here = sending(registered=False)
    here.change(("a", 1))
    with pytest.raises(
        Refusal, match=r"columns of public.orders are not the schema that subject orders-value has"
    ) as refused:
        here.relay()
    assert refused.value.next_command == "lockstep migrate orders"
    register_schemas(here.at.conn, here.pipeline, here.at.find_registry)
    assert here.relay().sent == 1


def test_a_schema_that_is_not_compatible_is_told_by_its_column(sending, registry):
    here = sending()
    registry.strict.add("orders-value")
    register_schemas(here.at.conn, here.pipeline, here.at.find_registry)
    with transaction(here.at.conn, OWNER) as cur:
        cur.execute("alter table public.orders alter column n type bigint")
        follow(cur, "public.orders")
    with pytest.raises(
        BadDefinition, match="orders: subject orders-value: column n was int and is long, and its compat"
    ):
        register_schemas(here.at.conn, here.pipeline, here.at.find_registry)


def test_a_value_that_avro_does_not_hold_stops_the_relay_with_its_change_and_column(sending):
    here = sending()
    here.change(("a", 1))
    here.change(("b", 1, "NaN"))
    stopped = here.relay().stopped
    assert "change 1: column price is NaN, which no Avro value of numeric(30,12) holds" in stopped.reason
    assert here.knows()[0] == 0, "both changes are one transaction"


class LateFetches(ThreadPoolExecutor):
    """Fetches rows as a thread does that had begun to, but gets the connection only when the transaction has ended."""

    def submit(self, fetch: Any, /, *_args: Any, **_settings: Any) -> Any:
        def late():
            until, conn = time.monotonic() + 0.2, fetch.__self__.connection
            while conn.info.transaction_status != TRANSACTION_STATUS_IDLE and time.monotonic() < until:
                time.sleep(0.001)
            with conn.cursor() as cur:
                cur.execute("fetch forward 2 from outgoing")
                return cur.fetchall()

        return super().submit(late)


def test_rows_that_are_fetched_late_are_waited_for_when_a_value_is_refused_or_does_not_fit(sending, monkeypatch):
    monkeypatch.setattr(outgoing, "ThreadPoolExecutor", LateFetches)
    monkeypatch.setattr(outgoing, "ROWS_AT_ONCE", 2)
    monkeypatch.setattr(relay, "MOST_SENT_BYTES", 500)  # two changes
    here = sending()
    for n in range(6):
        here.change((f"a{n}", n))
    assert (here.relay().sent, here.knows()[0]) == (6, 6)
    here.change(("b", 1, "NaN"))
    assert "change 6: column price is NaN" in here.relay().stopped.reason


def test_without_a_registry_or_an_answer_nothing_is_sent(sending, registry):
    here = sending()
    here.change(("a", 1))
    here.at.find_registry = lambda: None
    with pytest.raises(Refusal, match="LOCKSTEP_REGISTRY names no schema registry"):
        here.relay()
    here.at.find_registry = lambda: registry_of(registry.url, {"max.retries": 0}, str)
    registry.trouble = (500, b"{}")
    with pytest.raises(Unreachable, match="does not answer"):
        here.relay()
    registry.trouble = None
    assert here.relay().sent == 1


ROW = [TableColumn("id", "text"), TableColumn("amount", "numeric(12,2)"), TableColumn("tags", "text[]")]


def test_a_difference_of_schemas_names_the_first_column():
    now = [TableColumn("id", "text"), TableColumn("amount", "numeric(14,3)"), TableColumn("tags", "text[]")]
    for shape in ("row", "change"):
        before, after = (schema_of_feed("orders", columns, shape) for columns in (ROW, now))
        assert parse_schema(before)
        assert first_difference(before, after) == "column amount was decimal(12,2) and is decimal(14,3)"
        assert (
            first_difference(before, schema_of_feed("orders", ROW[:2], shape))
            == "column tags was string and is not there"
        )
        assert first_difference(before, before) is None


def test_a_column_whose_name_avro_does_not_take_is_refused():
    with pytest.raises(BadDefinition, match=r"the column 'a b' has a name that Avro does not take"):
        schema_of_feed("orders", [TableColumn("a b", "text")], "row")
