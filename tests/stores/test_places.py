"""Tests that a store is asked before the read and refuses in one line.

Every command about rows looks into it.
"""

from __future__ import annotations

import os
from contextlib import closing

import psycopg2
import pytest

from lockstep.context.systems import results_elsewhere, stores
from lockstep.core.errors import BadData, Refusal, Unreachable
from lockstep.steps.proof.verify import verify
from lockstep.steps.proof.verify_results import VALUES
from support.scenes.command_line import CommandLine, assert_refused
from support.scenes.here import Here
from support.scenes.stores_facts import UPSERT


def in_the_warehouse(statement: str) -> None:
    with closing(psycopg2.connect(stores()["WAREHOUSE"])) as conn, conn, conn.cursor() as cur:
        cur.execute(statement)


def attempts(drill) -> list[tuple]:
    return drill.ask("select state from lockstep.attempt")


@pytest.fixture
def lockstep(monkeypatch, capsys, tmp_path):
    """Returns `lockstep(*words)`, over the drill that the environment leads to."""

    def call(*words: str):
        environ = {name: value for name, value in os.environ.items() if name.startswith("LOCKSTEP_")}
        line = CommandLine(monkeypatch, capsys, tmp_path / f"line-{len(list(tmp_path.iterdir()))}")
        line.environ(**environ)
        return line(*words)

    return call


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("drop table public.drill", "target public.drill is not there"),
        ("alter table public.drill drop column n", "no column n"),
        ("alter table public.drill drop constraint drill_pkey", "no unique index on"),
        ("drop table lockstep.arrival", "not made ready for deliveries"),
    ],
)
def test_a_store_that_does_not_fit_is_refused_before_anything_is_read(delivered, statement, said):
    drill = delivered("Idempotent()", "warehouse")
    in_the_warehouse(statement)

    with pytest.raises(Refusal, match=said) as refused:
        Here(drill).run()

    assert "lockstep migrate drill" in refused.value.next_command
    assert attempts(drill) == []


def test_at_least_once_refuses_a_table_that_would_refuse_its_second_delivery(delivered):
    drill = delivered("AtLeastOnce()", "warehouse")
    in_the_warehouse("create unique index one on public.drill (_stream, _offset)")

    with pytest.raises(Refusal, match=r"unique on \(_stream, _offset\), and at least once"):
        Here(drill).run()

    assert attempts(drill) == []


def test_a_folder_that_is_gone_is_refused_before_anything_is_read(delivered):
    drill = delivered("Idempotent()", "files")
    place = drill.home.parent / "files" / "drills" / "drill"
    place.rename(place.with_name("elsewhere"))

    with pytest.raises(Refusal, match="is no folder"):
        Here(drill).run()

    assert attempts(drill) == []


def test_what_the_table_refuses_is_the_datas_fault_and_nothing_is_committed(delivered):
    drill = delivered("Idempotent()", "warehouse")
    in_the_warehouse("alter table public.drill add constraint small check (n < 100)")

    with pytest.raises(BadData, match="store WAREHOUSE refuses the rows by small"):
        Here(drill).run()

    assert drill.rows() == []
    assert drill.committed() == []
    assert drill.ask("select state, fault from lockstep.attempt") == [("failed", "data")]


def test_a_store_that_is_away_says_no_password_and_leaves_the_batch_to_be_resumed(delivered, monkeypatch):
    drill = delivered("Idempotent()", "warehouse")
    there = stores()["WAREHOUSE"]
    monkeypatch.setenv("LOCKSTEP_STORE_WAREHOUSE", "postgresql://lockstep:hush@127.0.0.1:1/nowhere")

    with pytest.raises(Unreachable) as away:
        Here(drill).run()

    assert "store WAREHOUSE does not answer" in str(away.value)
    assert "hush" not in str(away.value)
    monkeypatch.setenv("LOCKSTEP_STORE_WAREHOUSE", there)
    Here(drill).drain()
    assert drill.counted() == (0, 0)


def test_an_address_that_nobody_set_is_refused_at_plan_and_hides_nobody_elses_status(delivered, monkeypatch, lockstep):
    drill = delivered("Idempotent()", "warehouse")
    monkeypatch.delenv("LOCKSTEP_STORE_WAREHOUSE")

    for command in ("plan", "run"):
        assert_refused(lockstep(command, "drill"), "LOCKSTEP_STORE_WAREHOUSE is not set", "lockstep_store_warehouse")
    assert lockstep("status").code == 0
    assert drill.ask("select count(*) from lockstep.batch") == [(0,)]


def test_migrate_makes_the_table_where_the_results_live_and_refuses_a_ledger_for_a_store(
    delivered, monkeypatch, lockstep
):
    drill = delivered("Idempotent()", "warehouse")
    in_the_warehouse("drop table public.drill")

    assert lockstep("migrate", "drill").code == 0
    assert lockstep("migrate", "drill").code == 0
    assert drill.rows() == []
    monkeypatch.setenv("LOCKSTEP_STORE_WAREHOUSE", drill.dsn)
    assert_refused(lockstep("migrate", "drill"), "is the database of a ledger")


@pytest.mark.parametrize("store", ["own", "warehouse", "files"])
def test_lineage_finds_the_rows_where_they_live(delivered, lockstep, store):
    drill = delivered("Idempotent()", store)
    Here(drill).drain()

    document = lockstep("lineage", "drill", "--partition", "0", "--offset", "3", "--json").document

    assert document["coverage"] == "batch"
    (row,) = document["rows"]
    assert (row["_offset"], row["_batch"]) == (3, 1)


def test_blame_asks_the_store_for_the_row_and_for_the_tombstone(delivered, lockstep, produce):
    drill = delivered("Idempotent()", "warehouse", UPSERT, [("a", '{"id": "a", "n": 1}'), ("b", '{"id": "b", "n": 1}')])
    Here(drill).drain()
    produce(drill.topic, [("b", None)])
    Here(drill).drain()

    assert lockstep("blame", "drill", "--key", "a", "--json").document["row"]["n"] == 1
    document = lockstep("blame", "drill", "--key", "b", "--json").document
    assert (document["deleted"], document["batch"]) == (True, 2)


def test_a_preview_of_results_elsewhere_is_refused_before_anything_is_said_or_written(delivered, lockstep):
    drill = delivered("Idempotent()", "warehouse")
    Here(drill).drain()

    for call in (("replay", "drill", "--batch", "1"), ("fill", "drill"), ("rejects", "drill", "--redrive")):
        assert_refused(lockstep(*call, "--preview"), "cannot be shown beforehand")

    assert drill.ask("select count(*) from lockstep.request") == [(0,)]


def test_the_batch_whose_delivery_was_never_confirmed_is_told_with_the_command_that_brings_it(delivered, lockstep):
    drill = delivered("AtMostOnce()", "own")
    drill.dies_at("commit.done_unacknowledged")

    said = lockstep("batch", "1")

    assert "may be lost" in said.out
    assert "lockstep replay drill --batch 1" in said.out
    document = lockstep("batch", "1", "--json").document
    assert (document["guarantee"], document["delivered_at"]) == ("AtMostOnce", None)


@pytest.mark.parametrize("store", ["own", "warehouse"])
def test_verify_finds_a_row_that_somebody_took_out_and_one_that_he_moved(delivered, store):
    drill = delivered("Idempotent()", store)
    Here(drill).drain()
    results = results_elsewhere(Here(drill).folder.pipeline)
    with results.reading() as cur:  # type: ignore[attr-defined]
        cur.execute(
            "update public.drill set _offset = _offset + 1000 where _offset = (select max(_offset) from public.drill)"
        )

    checks = drill.verified(deep=False)

    assert not checks["every row is its batch's"][0]
    assert not checks["rows are all there"][0]
    assert "rows recorded" in checks["rows are all there"][1]


@pytest.mark.parametrize("store", ["warehouse", "files"])
def test_plain_verify_says_that_it_leaves_out_the_values_of_delivered_rows(delivered, store):
    here = Here(delivered("Idempotent()", store))
    here.drain()
    results = results_elsewhere(here.folder.pipeline)

    plain = verify(here.at.conn, here.at.broker, here.folder, deep=False, results=results)
    deep = verify(here.at.conn, here.at.broker, here.folder, deep=True, results=results)

    assert [check.left_out for check in plain if "values" in check.left_out] == [VALUES]
    assert not [check for check in deep if "values" in check.left_out]
    assert {check.left_out for check in deep if check.left_out} == (
        {"results are files"} if store == "files" else set()
    )


def test_verify_finds_a_file_that_somebody_took_out(delivered):
    drill = delivered("Idempotent()", "files")
    Here(drill).drain()
    drill.files()[0].unlink()

    checks = drill.verified()

    assert not checks["rows are all there"][0]
    assert sum(not ok for ok, _ in checks.values()) == 2
