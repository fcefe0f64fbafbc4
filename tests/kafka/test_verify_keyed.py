"""Tests verify of tables with one row per key: the newest record of each key, or its totals."""

from __future__ import annotations

import json

import pytest

from lockstep.core.changes.person import Person
from lockstep.core.errors import Refusal
from lockstep.engine.chosen import engine_of
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.changes.retire import retire
from lockstep.steps.proof import verify_totals as totals
from lockstep.steps.proof import verify_upsert as upsert
from support.engines import IN_PROCESS
from support.scenes.odd_logs import delete_records, recreate

UPSERT = 'Upsert("public.drill", key=("id",))'
ACCUMULATE = (
    'Accumulate("public.drill", key=("id",), totals=(Count("records"), Sum("total", of="n"), Max("most", of="n")))'
)
ROWS = "rows are all there"
COUNTED = "each key counts its records"
ADDED_UP = "totals are what the contributions add up to"
COPY = """insert into public.drill (id, n, _stream, _offset, _ordinal, _batch)
    select {}, n, _stream, {}, _ordinal, _batch from public.drill where id = 'r7'"""
CHANGED = "update lockstep.contribution set totals = jsonb_set(totals, '{total}', '1000'::jsonb) where key = '[\"r7\"]'"


@pytest.fixture
def put(verified, produce):
    """Returns `put((id, n), ...)`, which writes records of one partition, and reads them in a batch.

    An n of None is a tombstone.
    """

    def write(*values: tuple[str, int | None], partition: int = 0) -> None:
        records = [(key, None if n is None else json.dumps({"id": key, "n": n})) for key, n in values]
        produce(verified.here.drill.topic, records, partition=partition)
        verified.here.drain()

    return write


@pytest.fixture
def upserted(verified):
    """Returns the newest of each of the drill's 150 keys."""
    verified.into(UPSERT, "id text, n int", "id", format_='Json("id string, n int", key="id")')
    verified.here.drain()
    assert verified.wrong() == {}
    return verified


@pytest.fixture
def accumulated(verified):
    """Returns totals of each of the drill's 150 keys."""
    verified.into(ACCUMULATE, "id text, records bigint, total numeric, most int", "id")
    verified.here.drain()
    assert verified.wrong() == {}
    return verified


def test_deep_names_a_key_whose_row_is_missing(upserted):
    upserted.spoil("delete from public.drill where id = 'r7'")

    found = upserted.wrong()

    assert found.keys() == {upsert.KEYS_HAVE_NEWEST, ROWS}
    assert found[upsert.KEYS_HAVE_NEWEST].startswith('key ["r7"]: its newest record is stream ')
    assert found[upsert.KEYS_HAVE_NEWEST].endswith(", and its row is missing")


def test_deep_names_a_key_with_two_rows(upserted):
    upserted.spoil("alter table public.drill drop constraint drill_pkey")
    upserted.spoil(COPY.format("id", "_offset"))

    assert '["r7"]: 2 rows have this key' in upserted.wrong()[upsert.KEYS_HAVE_NEWEST]


def test_deep_names_a_row_that_was_put_in_by_hand(upserted):
    upserted.spoil(COPY.format("'made'", "_offset"))

    assert 'key ["made"]: no record of the log made its row' in upserted.wrong()[upsert.KEYS_HAVE_NEWEST]


def test_deep_names_a_row_that_came_back_behind_its_tombstone(upserted, put):
    put(("a", 1))
    put(("a", None), ("b", 2))
    assert upserted.wrong() == {}
    upserted.spoil(
        "insert into public.drill select 'a', 1, _stream, _offset - 2, 0, _batch - 1 from public.drill where id = 'b'"
    )

    assert "a tombstone, and a row is there" in upserted.wrong()[upsert.KEYS_HAVE_NEWEST]


def test_deep_names_a_row_that_was_changed(upserted):
    upserted.spoil("update public.drill set n = -1 where id = 'r7'")

    assert upserted.wrong() == {upsert.ROWS_MATCH_NEWEST: 'key ["r7"]: n is -1, its record says 7'}
    assert upserted.proved() == ("log", "wrong")


def test_deep_names_a_row_of_an_older_record(upserted, put):
    put(("a", 1))
    put(("a", 2))
    upserted.spoil("update public.drill set n = 1, _offset = _offset - 1, _batch = _batch - 1 where id = 'a'")

    assert upserted.wrong().keys() == {upsert.KEYS_HAVE_NEWEST}


def test_all_that_is_wrong_is_counted(upserted):
    upserted.spoil("delete from public.drill where n between 10 and 19")
    upserted.spoil("update public.drill set n = -n where n between 20 and 49")

    found = upserted.wrong()

    assert found[upsert.KEYS_HAVE_NEWEST].startswith("10 are wrong: ")
    assert found[upsert.ROWS_MATCH_NEWEST].startswith("30 are wrong: ")
    assert found[upsert.ROWS_MATCH_NEWEST].endswith("; and 20 more")


def test_plain_verify_counts_keys_by_the_effects_of_commits(upserted, put):
    put(("a", 1), ("b", 3), ("b", 4))
    put(("a", None), ("b", 4), ("nowhere", None))
    upserted.here.replay()
    assert upserted.here.drill.ask("select count(*) from public.drill") == [(151,)]
    assert upserted.wrong() == {}
    assert upserted.proved(deep=False) == ("ledger", "no")

    upserted.spoil("delete from public.drill where id = 'r7'")

    assert upserted.wrong(deep=False)[ROWS].endswith(", 150 are in the target")
    assert "public.drill: coordinates WRONG, contents not compared" in upserted.last_line(deep=False)


def test_plain_verify_says_that_values_were_not_compared_and_names_the_command_that_compares_them(upserted):
    upserted.spoil("update public.drill set n = -1 where id = 'r7'")

    assert upserted.wrong(deep=False) == {}
    assert upserted.left_out(deep=False) == (
        "the values in public.drill: the ledger has no digest of them; next: lockstep verify drill --deep"
    )
    said = "public.drill: coordinates compared with the ledger, contents not compared."
    assert upserted.last_line(deep=False).endswith(said)
    assert upserted.wrong() == {upsert.ROWS_MATCH_NEWEST: 'key ["r7"]: n is -1, its record says 7'}
    assert upserted.left_out() == ""


def test_plain_verify_says_that_rows_were_not_looked_at_where_no_commit_has_counted_them(verified):
    verified.into(UPSERT, "id text, n int", "id")
    verified.here.rewrite("import Accumulate,", "import Accumulate, PerPartition,")
    verified.here.rewrite("limits=", "guarantee=PerPartition(), limits=")
    migrate_target(verified.here.at.conn, verified.here.folder)
    verified.here.drain()
    verified.spoil("delete from public.drill where id = 'r7'")

    assert verified.wrong(deep=False) == {}
    assert (
        verified.last_line(deep=False)
        == "drill: every check holds. public.drill: coordinates and contents not compared."
    )
    assert "missing rows: 1 commits have not recorded how many rows they left" in verified.left_out(deep=False)
    assert verified.wrong().keys() == {upsert.KEYS_HAVE_NEWEST}


def test_order_by_is_proved_too(verified, put):
    verified.into('Upsert("public.drill", key=("id",), order_by="n")', "id text, n int", "id")
    put(("a", 5))
    put(("a", 3), ("a", 7))
    put(("a", 6))
    assert verified.here.drill.ask("select n from public.drill where id = 'a'") == [(7,)]
    assert (verified.wrong(), verified.proved()) == ({}, ("log", "log"))

    verified.spoil("update public.drill set n = 6, _offset = _offset + 1, _batch = _batch + 1 where id = 'a'")

    assert verified.wrong().keys() == {upsert.KEYS_HAVE_NEWEST}


def test_keys_of_other_types_are_proved_too(verified, elsewhere, put):
    elsewhere()
    verified.into(
        'Upsert("public.drill", key=("id", "n"))',
        "id uuid, n numeric",
        "id, n",
        format_='Json("id string, n decimal(10,2)")',
    )
    key = "0F0E0D0C-0000-4000-8000-000000000001"
    put((key, 1), (key, 2), (key, 1))
    assert (verified.wrong(), verified.proved()) == ({}, ("log", "log"))

    verified.spoil("delete from public.drill where n = 2")

    assert f'["{key.lower()}", 2.00]: its newest record' in verified.wrong()[upsert.KEYS_HAVE_NEWEST]


def test_a_tables_type_that_its_records_do_not_fit_any_more_is_said_in_one_line(upserted):
    upserted.spoil("delete from public.drill where id !~ '^r[0-9]$'; update public.drill set id = right(id, 1)")
    upserted.spoil("alter table public.drill alter id type smallint using id::smallint")

    with pytest.raises(Refusal, match="cannot hold string"):
        upserted.wrong()


def test_deep_names_a_total_that_was_changed(accumulated):
    accumulated.spoil("update public.drill set total = -1 where id = 'r7'")

    assert accumulated.wrong()[ADDED_UP].count('key ["r7"]') == 1
    assert accumulated.proved() == ("log", "wrong")


def test_deep_names_a_total_that_is_missing(accumulated):
    accumulated.spoil("delete from public.drill where id = 'r7'")

    assert 'key ["r7"]: its row has (null, null, null)' in accumulated.wrong()[ADDED_UP]


def test_deep_names_a_total_that_was_put_in_by_hand(accumulated):
    accumulated.spoil(
        "insert into public.drill select 'made', 1, 1, 1, _stream, _offset, 0, _batch from public.drill where id = 'r7'"
    )

    assert 'key ["made"]' in accumulated.wrong()[ADDED_UP]


def test_deep_names_a_total_that_is_doubled(accumulated):
    accumulated.spoil("alter table public.drill drop constraint drill_pkey")
    accumulated.spoil("insert into public.drill select * from public.drill where id = 'r7'")

    assert 'key ["r7"]: 2 rows have this key' in accumulated.wrong(deep=False)["each key has one row"]


def test_deep_names_contributions_that_are_not_what_the_log_adds_up_to(accumulated):
    accumulated.spoil(CHANGED)
    accumulated.spoil("update public.drill set total = 1000 where id = 'r7'")
    accumulated.spoil("update lockstep.contribution set records = records + 1 where key = '[\"r8\"]'")
    accumulated.spoil("update public.drill set records = 2 where id = 'r8'")

    found = accumulated.wrong()

    assert "key r7: total is 7, counted was 1000" in found[totals.TOTALS_MATCH_RECORDS]
    assert "key r8: 1 records" in found[totals.KEYS_COUNT_RECORDS]


def test_totals_that_are_wrong_are_counted(accumulated):
    accumulated.spoil("update public.drill set total = -1 where most between 10 and 39")

    found = accumulated.wrong(deep=False)[ADDED_UP]

    assert found.startswith("30 are wrong: ")
    assert found.endswith("; and 20 more")


def test_plain_verify_compares_totals_with_the_ledger_and_deep_with_the_log(accumulated):
    assert accumulated.proved(deep=False) == ("ledger", "ledger")
    assert accumulated.proved() == ("log", "log")


@pytest.mark.parametrize("portions", [(3,), (2, 1), (1, 2), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("behind", [True, False])
def test_a_tombstone_without_its_deletion_deletes_in_the_order_of_the_topic_wherever_a_batch_ends(
    verified, elsewhere, produce, monkeypatch, portions, behind
):
    elsewhere()
    here = verified.here
    here.rewrite("import Append,", "import Append, Debezium,")
    verified.into(
        'Upsert("public.drill", key=("id",), order_by="_source_order")',
        "id text not null, n int, _source_order bytea",
        "id",
        format_='Debezium("id string, n int", key=("id",), order="source")',
    )
    engine = engine_of(here.folder, here.at.broker, here.at.dsn, lambda: None, IN_PROCESS)
    monkeypatch.setattr(type(here), "engine", engine)
    source = {
        "connector": "postgresql",
        "db": "d",
        "schema": "s",
        "table": "t",
        "ts_ms": 1,
        "txId": 1,
        "snapshot": "false",
    }
    rows = [
        (key, json.dumps({"op": "c", "before": None, "after": {"id": key, "n": 1}, "source": source | {"lsn": lsn}}))
        for lsn, key in enumerate(("gone", "left") if behind else ("left", "gone"), start=7)
    ]
    records = iter([(json.dumps({"id": key}), value) for key, value in [*rows, ("gone", None)]])
    for portion in portions:
        produce(here.drill.topic, [next(records) for _ in range(portion)], partition=0)
        here.drain()

    assert here.drill.ask("select id from public.drill") == [("left",)]
    assert verified.wrong() == {}


def test_rows_whose_records_retention_has_taken_are_not_said_to_be_compared(upserted, put):
    drill = upserted.here.drill
    put(("stays", 1))
    for partition, position in drill.ask("select partition, position from lockstep.stream"):
        delete_records(drill.kafka, drill.topic, position - (partition == 0), partition)
    upserted.spoil("update public.drill set n = -1 where id <> 'stays'")

    assert upserted.wrong() == {}
    assert upserted.last_line() == (
        "drill: every check holds. public.drill: coordinates compared with Kafka for 1 of 151 rows, the rest with the "
        "ledger; contents compared with Kafka for 1 of 151 rows, the rest not at all."
    )


@pytest.mark.parametrize(
    ("target", "columns", "key"),
    [
        (UPSERT, "id text, n int", "id"),
        ('Append("public.drill")', "id text, n int", "_stream, _offset, _ordinal"),
        (ACCUMULATE, "id text, records bigint, total numeric, most int", "id"),
        (
            'History("public.drill", key=("id",))',
            "id text not null, n int, valid_from timestamptz not null, valid_until timestamptz, _deleted boolean not null",
            "_stream, _offset, _ordinal",
        ),
    ],
    ids=["upsert", "append", "accumulate", "history"],
)
def test_nothing_is_proved_by_a_log_that_was_made_anew(verified, target, columns, key):
    verified.into(target, columns, key, format_='Json("id string, n int", key="id")')
    here = verified.here
    here.drain()
    assert verified.wrong() == {}
    assert verified.proved() == ("log", "log")
    recreate(here.drill.kafka, here.drill.topic)
    retire(here.at.conn, here.at.broker, here.folder.pipeline, None, Person("me", "a test"), "truncation")

    assert verified.wrong() == {}
    assert "log" not in verified.proved()
    assert "Kafka" not in verified.last_line()
