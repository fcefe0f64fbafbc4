"""Tests the consequences of a violated expectation: a refused batch, a quarantined record, or a mere warning."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import psycopg2
import pytest

from lockstep.core.errors import BadData
from lockstep.core.proof.accounting import REJECTS_ALWAYS_TAKEN
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.proof.verify import verify

BELOW_120 = ("column_values_to_be_between", {"column": "n", "max_value": 119})
ROWS = ("table_row_count_to_be_between", {"min_value": 1_000})
ONCE = ("compound_columns_to_be_unique", {"column_list": ["id", "n"]})
CONDITION = {"row_condition": 'col("n") < 130', "condition_parser": "great_expectations"}


ROWS_TABLE = """create table public.drill_rows (id text, n int, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null, primary key (_stream, _offset, _ordinal));
"""


def put_behind_a_view(here) -> None:
    """Gives the drill a target whose rows are written once, and hidden until their commit."""
    (here.drill.home / "drill" / "target.sql").write_text(ROWS_TABLE)
    with closing(psycopg2.connect(here.drill.dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute("set role lockstep_owner; drop table public.drill")
    migrate_target(here.at.conn, here.folder)


@pytest.fixture(params=["staged", pytest.param("hidden", marks=pytest.mark.long)])
def suited(here, request):
    """Returns `suited(kind, kwargs, default=..., **more)`.

    It gives the drill's pipeline a suite of one expectation. The rows are judged in staging, or behind their view.
    """
    if request.param == "hidden":
        put_behind_a_view(here)

    def write(kind: str, kwargs: dict, default: str = "quarantine", **more: Any):
        here.rewrite("limits=", f"on_violation={default!r}, limits=")
        expectation = {"type": f"expect_{kind}", "kwargs": kwargs, "severity": "critical"} | more
        suite = {"name": "drill", "expectations": [expectation]}
        (here.drill.home / "drill" / "expectations.json").write_text(json.dumps(suite))
        return here

    return write


def outcome(here) -> tuple[int, int]:
    """Returns the numbers of rows and rejects, after a check that finds no fault with them."""
    assert [check for check in verify(here.at.conn, here.at.broker, here.folder, deep=True) if not check.ok] == []
    assert here.drill.violations() == []
    return here.drill.ask(
        "select (select count(*) from public.drill)::int, (select count(*) from lockstep.reject)::int"
    )[0]


@pytest.mark.parametrize(
    ("expectation", "how", "rejects"),
    [
        (BELOW_120, {}, 30),
        (BELOW_120, {"default": "refuse", "meta": {"on_violation": "quarantine"}}, 30),
        (BELOW_120, {"severity": "warning"}, 0),
        ((BELOW_120[0], BELOW_120[1] | {"mostly": 0.5}), {}, 0),
        ((BELOW_120[0], BELOW_120[1] | CONDITION), {}, 10),
        (("column_values_to_be_unique", {"column": "id"}), {}, 4),
        (("column_pair_values_a_to_be_greater_than_b", {"column_A": "n", "column_B": "_ordinal"}), {}, 1),
        (("select_column_values_to_be_unique_within_record", {"column_list": ["n", "_ordinal"]}), {}, 1),
    ],
    ids=[
        "by default",
        "by its own word",
        "a warning",
        "mostly",
        "under a condition",
        "not unique",
        "a pair",
        "several columns",
    ],
)
def test_records_that_break_it_are_put_aside_and_the_others_go_on(suited, produce, expectation, how, rejects):
    here = suited(*expectation, **how)
    produce(here.drill.topic, [("k7", json.dumps({"id": f"r{i}", "n": i})) for i in (7, 8)])
    here.drain()
    assert outcome(here) == (152 - rejects, rejects)


@pytest.mark.parametrize(
    ("expectation", "how", "words"),
    [
        (BELOW_120, {"default": "refuse"}, "between on n failed for 30 rows, such as stream"),
        (BELOW_120, {"meta": {"on_violation": "refuse"}}, "failed for 30 rows"),
        (ROWS, {}, "row_count_to_be_between on the rows failed, and it names no records"),
        (ONCE, {}, "unique on id, n failed, and it names no records"),
        (("column_mean_to_be_between", {"column": "n", "max_value": 3}), {}, "mean_to_be_between on n failed"),
        (("column_values_to_be_between", {"column": "nr", "max_value": 3}), {}, "on nr failed"),
    ],
    ids=[
        "by default",
        "by its own word",
        "about the table",
        "it tells no rows",
        "about a column",
        "it cannot be asked",
    ],
)
def test_what_names_no_record_or_is_to_refuse_refuses_the_batch(suited, produce, expectation, how, words):
    here = suited(*expectation, **how)
    produce(here.drill.topic, [("k7", json.dumps({"id": "r7", "n": 7}))])
    with pytest.raises(BadData, match=words):
        here.run()
    assert outcome(here) == (0, 0)


def test_an_expectation_that_does_not_exist_refuses_the_batch_and_is_never_left_out(suited):
    here = suited("column_values_to_not_be_nul", {"column": "id"})
    with pytest.raises(
        BadData, match=r"Great Expectations has no expect_column_values_to_not_be_nul; did you mean"
    ) as refused:
        here.run()
    assert refused.value.next_command == "lockstep check drill"
    assert outcome(here) == (0, 0)


def test_more_than_the_share_of_rejects_refuses_and_puts_nothing_aside(suited, produce):
    here = suited("column_values_to_be_between", {"column": "n", "max_value": REJECTS_ALWAYS_TAKEN - 1})
    produce(here.drill.topic, [("k", json.dumps({"id": "r", "n": 1_000}))] * (REJECTS_ALWAYS_TAKEN - 50 + 1), 0)
    here.rewrite("records=200", "records=500")
    with pytest.raises(
        BadData, match=r"101 of 201 records were rejected \(101 of them by an expectation or an index\)"
    ) as no:
        here.run()
    assert outcome(here) == (0, 0)
    assert no.value.values == (
        f"101 records, first {here.drill.topic}-0 offset 27: expectation expect_column_values_to_be_between(n)"
    )
    ((table,),) = here.drill.ask(
        "select tablename from pg_tables where schemaname = 'lockstep_staging' and tablename not like '%%\\_raw'"
    ) or [("",)]
    assert not table or here.drill.ask(f"select count(_reason) from lockstep_staging.{table}") == [(0,)]


def test_whoever_dies_between_the_mark_and_the_commit_all_or_nothing_is_there(suited):
    here = suited(*BELOW_120)
    for point in ("validate.after", "commit.ledger_written"):
        assert here.drill.run("--take-over", fault=f"{point}=kill") == {"killed": "SIGKILL"}
        assert here.drill.ask(
            "select (select count(*) from public.drill) + (select count(*) from lockstep.reject)"
        ) == [(0,)]
        assert here.drill.ask(
            "select sum(quarantined) from lockstep.result where token = (select max(token) from lockstep.attempt)"
        ) == [(30,)]
    here.run(take_over=True)
    assert here.drill.ask("select count(*), count(value), count(distinct reason) from lockstep.reject") == [
        (30, 30, 30)
    ]
    assert here.drill.ask("select count(*) from public.drill") == [(120,)]


def judged_behind_a_view(here):
    """Gives the drill a target behind a view, and a suite that puts 30 of its records aside."""
    put_behind_a_view(here)
    here.rewrite("limits=", "on_violation='quarantine', limits=")
    expectation = {"type": f"expect_{BELOW_120[0]}", "kwargs": BELOW_120[1], "severity": "critical"}
    suite = {"name": "drill", "expectations": [expectation]}
    (here.drill.home / "drill" / "expectations.json").write_text(json.dumps(suite))


def test_a_record_that_is_put_aside_behind_a_view_never_shows(here):
    judged_behind_a_view(here)
    here.drain()
    assert outcome(here) == (120, 30)
    assert here.drill.ask("select max(n), (select max(n) from public.drill_rows) from public.drill") == [(119, 119)]
    told = here.drill.ask(
        "select (convert_from(value, 'UTF8')::json ->> 'n')::int, reason from lockstep.reject order by 1"
    )
    assert told == [(n, f"expectation expect_column_values_to_be_between(n): {n}") for n in range(120, 150)]
    copied = here.drill.ask("select sum(rows), sum(rows_digest) from lockstep.landed")
    assert copied == here.drill.ask("select sum(rows), sum(rows_digest) from lockstep.result")
    ((because,),) = here.drill.ask("select distinct route ->> 'because' from lockstep.attempt")
    assert "rows are written once, into public.drill_rows" in because


@pytest.mark.long
def test_whoever_dies_a_record_that_is_put_aside_behind_a_view_never_shows(here):
    judged_behind_a_view(here)
    seen = "select (select count(*) from public.drill)::int, (select count(*) from lockstep.reject)::int"
    behind = "select count(*), max(n) from public.drill_rows"
    for point, left in (("land.put_aside", (150, 149)), ("validate.after", (120, 119)), ("commit.shown", (120, 119))):
        assert here.drill.run("--take-over", fault=f"{point}=kill") == {"killed": "SIGKILL"}
        assert (here.drill.ask(seen), here.drill.ask(behind)) == ([(0, 0)], [left])
    here.run(take_over=True)
    assert outcome(here) == (120, 30)
