"""Records that are tried become what a run from Kafka makes of the same records, without a JVM."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg2
import pyarrow as pa
import pytest
from psycopg2.extras import RealDictCursor

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import connect
from lockstep.context.systems import engine_for
from lockstep.core.changes.tried import Record
from lockstep.core.errors import BadData
from lockstep.core.pipeline.columns import parse_columns
from lockstep.core.planning.decisions import Caller
from lockstep.formats.json.columns import columnar
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.run import run
from lockstep.steps.context import Context
from lockstep.testing import tried
from support.inputs.nasty_json import COLUMNS, EACH, NASTY, gathered, good, values

if TYPE_CHECKING:
    from pathlib import Path

COORDINATES = "_stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null"
SCHEMA = ", ".join(map(" ".join, COLUMNS.items()))
DDL = ", ".join(f"{column.name} {column.postgres_type}" for column in parse_columns(SCHEMA))
APPEND = 'Append("public.p")'
UPSERT = 'Upsert("public.p", key=("id",))'
RANKED = 'Upsert("public.p", key=("id",), order_by="n")'
SUITE = {
    "type": "expect_column_values_to_be_between",
    "kwargs": {"column": "n", "min_value": 0, "max_value": 10},
    "severity": "critical",
}


@dataclass
class Both:
    """A pipeline that is run from a real topic and tried, on the same records."""

    name: str
    dsn: str
    kafka: str
    topic: str
    produce: Any

    def run(self, records: list[Record]) -> list[dict]:
        """The target's rows after a real run, with the lines of their records."""
        self.produce(self.topic, [(each.key, each.value) for each in records], partition=0)
        folder = load(self.name)
        with closing(Context(self.dsn, Broker(self.kafka))) as at:
            run(at, engine_for(folder, at), folder, Caller("test"))
        return self.rows()

    def rows(self) -> list[dict]:
        found = self.ask(f"select * from public.{self.name} order by _offset")
        hidden = ("_stream", "_offset", "_ordinal", "_batch")
        return [{"line": row["_offset"] + 1} | {k: v for k, v in row.items() if k not in hidden} for row in found]

    def ask(self, query: str) -> list[dict]:
        with closing(psycopg2.connect(self.dsn, cursor_factory=RealDictCursor)) as conn, conn.cursor() as cur:
            cur.execute("set timezone to 'UTC'")
            cur.execute(query)
            return [dict(row) for row in cur.fetchall()]


@pytest.fixture
def both(database, kafka, topic, produce, tmp_path, monkeypatch):
    """`both(columns, ddl, target, suite=None, **options)` is a pipeline in a folder, with its target and its topic."""

    def make(columns: str, ddl: str, target: str, suite: dict | None = None, **options: str) -> Both:
        name, source = "p", topic(partitions=1)
        folder: Path = tmp_path / "pipelines" / name
        folder.mkdir(parents=True)
        extra = "".join(f", {option}={value}" for option, value in options.items())
        (folder / "__init__.py").write_text(
            "from lockstep.core.pipeline.definition import Append, Json, Limits, PerPartition, Pipeline, RecordLimits, Upsert\n"
            f'P = Pipeline(name="{name}", topic="{source}", format=Json({columns}), target={target}{extra})\n'
        )
        unique = "" if "primary key" in ddl else ", primary key (_stream, _offset, _ordinal)"
        (folder / "target.sql").write_text(f"create table public.{name} ({ddl}, {COORDINATES}{unique});")
        if suite:
            (folder / "expectations.json").write_text(json.dumps({"name": name, "expectations": [suite]}))
        monkeypatch.setenv("LOCKSTEP_PIPELINES", str(folder.parent))
        monkeypatch.setattr("lockstep.engine.spark.engine.SparkEngine.__init__", no_spark)
        with closing(connect(database)) as conn:
            migrate_target(conn, load(name))
        return Both(name, database, kafka, source, produce)

    return make


def no_spark(*_: Any, **__: Any) -> None:
    raise AssertionError("Spark was asked for")


def told(rows: list[dict]) -> list[dict[str, str]]:
    """Values to the digit and to the sign of a zero."""
    return [{name: repr(value) for name, value in row.items()} for row in rows]


def of_trial(found) -> list[dict]:
    return [{"line": row.line, **row} for row in found.rows]


def test_odd_records_become_the_same_rows(both):
    made = both(repr(SCHEMA), DDL, APPEND)
    records = [*dict.fromkeys([*NASTY, *EACH, *gathered(values, 60), *map(str.encode, gathered(good, 30))])]
    given = _taken(columnar(load("p").pipeline), [record for record in records if record is not None])
    assert len(given) > 400

    found = tried("p", given)
    rows = made.run([Record(value) for value in given])

    assert told(of_trial(found)) == told(rows)
    assert len(rows) == len(given)
    assert (found.engine, found.rejects, found.filtered, found.verdict.refusals) == ("driver", [], [], ())


def _taken(decode, records: list[bytes]) -> list[bytes]:
    """Those that decode by columns, alone and together. Without a JVM there are no others: tests/spark compares them."""
    records = [record for record in records if len(decode(pa.array([record], pa.binary()))[0])]
    while len(places := decode(pa.array(records, pa.binary()))[0]) < len(records):
        records = [records[place] for place in places]
    return records


def test_the_newest_record_of_a_key_is_its_row_in_both(both):
    made = both('"id string, n int, at timestamp", key="id"', "id text primary key, n int, at timestamptz", UPSERT)
    ids = ["a", "b", "a", "c", "b", "a"]
    given = [f'{{"id": "{key}", "n": {n}, "at": "2026-05-01T12:00:00.25Z"}}'.encode() for n, key in enumerate(ids)]

    found = tried("p", given)

    assert told(of_trial(found)) == told(made.run([Record(value) for value in given]))
    assert [(row.line, row["id"], row["n"]) for row in found.rows] == [(4, "c", 3), (5, "b", 4), (6, "a", 5)]
    assert [(each.line, each.by) for each in found.superseded] == [(1, 6), (2, 5), (3, 6)]


def test_the_highest_rank_of_a_key_is_its_row_in_both(both):
    made = both('"id string, n int"', "id text primary key, n int", RANKED)
    given = [{"id": "a", "n": 5}, {"id": "a", "n": 3}, {"id": "b", "n": 1}]

    found = tried("p", given)

    assert told(of_trial(found)) == told(made.run([Record(json.dumps(each).encode()) for each in given]))
    assert [(row.line, dict(row)) for row in found.rows] == [(1, {"id": "a", "n": 5}), (3, {"id": "b", "n": 1})]
    assert [(each.line, each.by) for each in found.superseded] == [(2, 1)]


@pytest.mark.parametrize(
    "options", [{"guarantee": "PerPartition()"}, {"start": '"latest"'}, {"limits": "Limits(records=1)"}]
)
def test_an_option_that_is_about_when_records_are_read_changes_no_row(both, options):
    both('"id string, n int"', "id text, n int", APPEND, **options)
    given = [{"id": f"r{n}", "n": n} for n in range(5)]
    assert tried("p", given).rows == given


def test_the_suite_quarantines_the_same_records_for_the_same_reasons(both):
    made = both('"id string, n int"', "id text, n int", APPEND, SUITE, on_violation='"quarantine"')
    given = [{"id": f"r{n}", "n": n} for n in (5, 11, 10, -1, 0)]

    found = tried("p", given)

    assert told(of_trial(found)) == told(made.run([Record(json.dumps(each).encode()) for each in given]))
    assert [row["n"] for row in found.rows] == [5, 10, 0]
    real = made.ask('select "offset" + 1 as line, reason, value from lockstep.reject order by 1')
    assert [(each.line, each.reason, each.value) for each in found.rejects] == [
        (row["line"], row["reason"], bytes(row["value"])) for row in real
    ]
    assert [each.line for each in found.rejects] == [2, 4]
    (expectation,) = found.verdict.expectations
    assert (expectation.success, expectation.unexpected, expectation.quarantined) == (False, 2, 2)
    assert found.verdict.ok


def test_a_batch_that_the_suite_refuses_is_refused_in_the_same_words(both):
    made = both('"id string, n int"', "id text, n int", APPEND, SUITE)
    given = [{"id": "a", "n": 5}, {"id": "b", "n": 11}]

    found = tried("p", given)

    with pytest.raises(BadData) as refused:
        made.run([Record(json.dumps(each).encode()) for each in given])
    (reason,) = found.verdict.refusals
    assert reason.replace("offset 2", "offset 1") in refused.value.message  # lines are counted from 1
    assert made.rows() == []
    assert found.rows == given  # what the batch would have left
    assert not found.verdict.ok


def test_a_target_that_refuses_the_rows_refuses_them_in_the_same_words(both):
    made = both('"id string, n int"', "id text, n int constraint small check (n < 10)", APPEND)
    given = [{"id": "a", "n": 5}, {"id": "b", "n": 11}]

    found = tried("p", given)

    with pytest.raises(BadData) as refused:
        made.run([Record(json.dumps(each).encode()) for each in given])
    (said,), met = found.verdict.refusals, refused.value.message
    # Each names the record where it was: the line of what was tried, the offset of the topic.
    assert (said.rpartition(" offset ")[0], said.rpartition(" ")[2]) == (met.rpartition(" offset ")[0], "2")
    assert met.endswith(" offset 1")
    assert "small" in refused.value.message
    assert found.rows == given


def test_what_the_table_adds_to_a_row_is_in_the_row_that_is_tried(both):
    made = both('"id string, n int"', "id text, n numeric(8, 2), twice int generated always as (n * 2) stored", APPEND)
    found = tried("p", [{"id": "a", "n": 5}])
    assert told(of_trial(found)) == told(made.run([Record(b'{"id": "a", "n": 5}')]))
    assert found.rows == [{"id": "a", "n": Decimal("5.00"), "twice": 10}]
