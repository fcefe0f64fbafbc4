"""Tests that odd keys and values are the same in an upserted table of the lake and in one of the database."""

from __future__ import annotations

import pickle
import random
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg2
import pyarrow as pa
import pytest
from psycopg2 import sql

from lake.keyed.conftest import InKeyed
from lockstep.core.errors import BadData
from lockstep.core.lake.iceberg import Iceberg
from lockstep.core.pipeline.columns import parse_columns
from lockstep.core.pipeline.targets import Upsert
from lockstep.core.staging import AttemptId
from lockstep.engine.chosen import engine_of
from lockstep.ledger.quoting import table_name
from lockstep.steps.proof.verify import verify
from lockstep.targets.lake.keyed import make_keyed_copy, on_copy, rows_of_copy
from support.engines import IN_PROCESS

KEY = tuple("abcdefghij")
NAMED = (
    "a string, b bigint, c double, d decimal(20,5), e date, f timestamp, g boolean, h binary, i float, j smallint, "
    "k string, l double, m decimal(38,0), n timestamp, o float, p binary"
)
TYPES = {column.name: column.type for column in parse_columns(NAMED)}
POSTGRES = {"string": "text", "double": "float8", "timestamp": "timestamptz", "binary": "bytea", "float": "real"}
ODD: dict[str, list[Any]] = {
    "string": [
        *("", " ", "a", "A", "ä", "a\u0308", "\u212b", "\u00c5", "\U0001f600", "\ufeff", "\t\n\\N", "\\."),
        *("\ud7ff" * 20, "\U0010ffff" * 17, "x" * 5000),
    ],
    "bigint": [-(2**63), -1, 0, 1, 2**63 - 1],
    "smallint": [-32768, 0, 32767],
    "double": [-0.0, 0.0, float("nan"), float("inf"), float("-inf"), 5e-324, 0.1 + 0.2, 0.3, 1e308],
    "float": [-0.0, 0.0, float("nan"), float("inf"), 1e-45, 16777217.5, 0.1],
    "decimal(20,5)": [*map(Decimal, ("1", "1.00000", "-0", "0E+3", "999999999999999.99999", "-0.00001"))],
    "decimal(38,0)": [10**38 - 1, 1 - 10**38, *map(Decimal, ("-0", "1E+37"))],
    "date": [date(1, 1, 1), date(1582, 10, 10), date(1969, 12, 31), date(2000, 2, 29), date(9999, 12, 31)],
    "timestamp": [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        datetime(2038, 1, 19, 3, 14, 8, 1, UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
    ],
    "boolean": [True, False],
    "binary": [b"", b"\x00", b"\xff" * 20, b"\\x41", b"A"],
}
COLUMNS = ", ".join(f"{name} {POSTGRES.get(kind, kind)}" for name, kind in TYPES.items())
TABLE = f"""create table public.newest ({COLUMNS}, _stream int not null, _offset bigint not null,
    _ordinal int not null, _batch bigint not null, primary key ({", ".join(KEY)}))"""
DEFINITION = """
from lockstep import Custom, Iceberg, Limits, Pipeline, Upsert
KEY = tuple("abcdefghij")
P = Pipeline(
    name="drill", topic="{topic}", format=Custom("COLUMNS"), limits=Limits(records=400),
    target=(Upsert(Iceberg("sales.drill"), key=KEY), Upsert("public.newest", key=KEY)),
)
""".replace("COLUMNS", NAMED)
DECODE = """
import pickle
from lockstep import Delete

def decode(key, value, headers):
    row, is_gone = pickle.loads(bytes.fromhex(value.decode()))
    return Delete(row) if is_gone else row
"""


class InOdd(InKeyed):
    """The drill into two tables, with records of a decoder that gives any value."""

    @property
    def engine(self) -> Any:
        return engine_of(self.folder, self.at.broker, self.at.dsn, lambda: None, IN_PROCESS)

    def produce(self, count: int) -> None:
        """Sends nothing: `send` does."""

    def send(self, records: list[tuple[dict[str, Any], bool]]) -> None:
        # One key of Kafka: all are in one partition.
        self._send(self.drill.topic, [("same", pickle.dumps(each).hex()) for each in records])

    def both(self) -> tuple[list[str], list[str]]:
        """Returns the rows of the lake and those of the database, exactly."""
        names = [name for name, _ in self.table().postgres_columns]
        read = [f"{name}::float8" if TYPES.get(name) == "float" else name for name in names]  # as Arrow gives it
        with closing(psycopg2.connect(self.drill.dsn)) as conn, conn, conn.cursor() as cur:
            cur.execute(f"select {', '.join(read)} from public.newest")
            there = [[_plain(value) for value in row] for row in cur]
        held = [[_plain(row[name]) for name in names] for rows in self.table().read(names) for row in rows.to_pylist()]
        return sorted(map(repr, held)), sorted(map(repr, there))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return bytes(value) if isinstance(value, memoryview) else value


@pytest.mark.long
@pytest.mark.timeout(900)
def test_odd_keys_and_values_are_alike_in_both_tables_after_deletions_and_replays(made_lake, tmp_path):
    seed = random.randrange(1 << 32)  # noqa: S311 - a seed that can be told is the point
    print(f"seed {seed}")
    chance = random.Random(seed)  # noqa: S311 - as above
    (tmp_path / "pipelines" / "drill").mkdir(parents=True)
    (tmp_path / "pipelines" / "drill" / "decode.py").write_text(DECODE)
    here = made_lake(InOdd, DEFINITION, TABLE)
    first = {name: chance.choice(ODD[TYPES[name]]) for name in KEY}
    keys = [{name: chance.choice(ODD[TYPES[name]]) for name in KEY} for _ in range(25)]
    keys += [first | {name: value} for name in KEY for value in ODD[TYPES[name]]]  # in one column they differ

    def record() -> tuple[dict[str, Any], bool]:
        key, is_gone = chance.choice(keys), chance.random() < 0.2
        rest = {name: chance.choice([None, *ODD[kind]]) for name, kind in TYPES.items() if name not in KEY}
        return (key, True) if is_gone else (key | rest, False)

    for turn in range(3):
        here.send([record() for _ in range(70)])
        here.drain()
        held, there = here.both()
        assert held == there != []
        if turn:
            for partition in range(2):  # one of them is empty
                here.replay(f"{partition}:{chance.randrange(60)}", f"{partition}:{chance.randrange(60, 130)}")
            held, there = here.both()
            assert held == there
    assert here.drill.ask("select count(*) from lockstep.reject") == [(0,)]
    assert [c.detail for c in verify(here.at.conn, here.at.broker, here.folder, deep=True) if not c.ok] == []


def test_a_year_that_no_calendar_of_the_driver_holds_is_named_as_bad_data(database):
    target = Upsert(Iceberg("sales.drill"), key=("at",))
    schema = pa.schema([("at", pa.timestamp("us", "UTC"))])
    with closing(psycopg2.connect(database)) as conn, conn, conn.cursor() as cur:
        make_keyed_copy(cur, on_copy(target), [("at", "timestamptz")], [])
        cur.execute(sql.SQL("insert into {} values ('20000-01-01')").format(table_name(on_copy(target).table)))
        with pytest.raises(BadData, match="batch 7: a value that no column of the lake holds: ") as refused:
            list(rows_of_copy(cur, AttemptId(7, 1), on_copy(target), schema))
    assert refused.value.next_command == "lockstep batch 7"
