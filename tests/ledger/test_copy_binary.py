"""Tests that Postgres stores rows in COPY's binary format as it would store them from text, for every type."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal

import psycopg2
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import csv

from lockstep.core.pipeline.columns import Column
from lockstep.engine.sinks import copy_binary
from lockstep.formats.values import arrow_type

DECIMALS = [
    (1, 0),
    (1, 1),
    (4, 0),
    (5, 4),
    (12, 2),
    (15, 15),
    (18, 0),
    (18, 17),
    (18, 18),
    (19, 2),
    (30, 8),
    (38, 0),
    (38, 19),
    (38, 38),
]
WHOLE = {"smallint": 16, "int": 32, "bigint": 64}


def decimals(precision: int, scale: int):
    most = 10**precision - 1
    whole = st.one_of(st.integers(-most, most), st.integers(0, 10_001), st.sampled_from([most, -most, 10**scale, 0]))
    return whole.filter(lambda n: abs(n) <= most).map(lambda n: Decimal(f"{n}e-{scale}"))


VALUES = {
    "string": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
    "binary": st.binary(),
    "boolean": st.booleans(),
    "float": st.floats(width=32),
    "double": st.floats(),
    "date": st.dates(date(1, 1, 1), date(9999, 12, 31)),
    "timestamp": st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)),  # noqa: DTZ001
    **{name: st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for name, bits in WHOLE.items()},
    **{f"decimal({p},{s})": decimals(p, s) for p, s in DECIMALS},
}
COLUMNS = {type_: Column(f"c{place}", type_) for place, type_ in enumerate(VALUES)}
SETTINGS = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def batch_of(fields: dict[str, list]) -> pa.RecordBatch:
    arrays = [pa.array(values, arrow_type(COLUMNS[type_])) for type_, values in fields.items()]
    return pa.RecordBatch.from_arrays(arrays, names=[COLUMNS[type_].name for type_ in fields])


def as_text(batch: pa.RecordBatch) -> io.BytesIO:
    """Returns the rows as CSV: bytes in hex, everything else as Arrow writes it."""
    hexed = [
        pa.array([None if b is None else f"\\x{b.hex()}" for b in column.to_pylist()], pa.string())
        if pa.types.is_binary(column.type)
        else column
        for column in batch.columns
    ]
    out = io.BytesIO()
    written = pa.RecordBatch.from_arrays(hexed, names=batch.schema.names)
    csv.write_csv(written, out, csv.WriteOptions(include_header=False))
    out.seek(0)
    return out


@pytest.fixture
def stored(conn):
    """Returns `stored(batch)`: the rows as text, after COPY of text and after COPY of the binary format."""
    columns = ", ".join(f"{column.name} {column.postgres_type}" for column in COLUMNS.values())
    with conn, conn.cursor() as cur:
        cur.execute("set timezone = 'UTC'")
        for table in ("by_text", "by_binary"):
            cur.execute(f"create temp table {table} (number serial, {columns})")

    def store(batch: pa.RecordBatch, *, by_text: bool = True) -> tuple[list, list]:
        names = ", ".join(batch.schema.names)
        with conn, conn.cursor() as cur:
            cur.execute("truncate by_text, by_binary restart identity")
            if by_text:
                cur.copy_expert(f"copy by_text ({names}) from stdin (format csv)", as_text(batch))
            for file in copy_binary.copy_binary(batch):
                cur.copy_expert(f"copy by_binary ({names}) from stdin (format binary)", file)
            found = []
            for table in ("by_text", "by_binary"):
                cur.execute(f"select t::text from {table} t order by number")
                found.append(cur.fetchall())
            return found[0], found[1]

    return store


def test_what_is_read_back_is_what_text_would_have_stored(stored):
    @SETTINGS
    @given(
        st.integers(1, 5).flatmap(
            lambda n: st.fixed_dictionaries(
                {t: st.lists(st.none() | v, min_size=n, max_size=n) for t, v in VALUES.items()}
            )
        )
    )
    def same(fields):
        by_text, by_binary = stored(batch_of(fields))
        assert by_binary == by_text

    same()


def test_columns_without_nulls_and_slices_of_a_batch_are_stored_alike(stored):
    @SETTINGS
    @given(st.fixed_dictionaries({t: st.lists(v, min_size=4, max_size=4) for t, v in VALUES.items()}))
    def same(fields):
        by_text, by_binary = stored(batch_of(fields).slice(1, 2))
        assert len(by_text) == 2
        assert by_binary == by_text

    same()


def test_a_batch_that_is_too_large_for_one_piece_comes_in_several(stored, monkeypatch):
    monkeypatch.setattr(copy_binary, "MOST_COPIED_BYTES", 200)
    batch = batch_of({"int": list(range(100)), "string": [f"row {n}" for n in range(100)]})

    assert len(list(copy_binary.copy_binary(batch))) > 5
    by_text, by_binary = stored(batch)
    assert by_binary == by_text


@pytest.mark.parametrize(
    ("type_", "number"),
    [
        ("timestamp", -(2**63)),
        ("timestamp", -9_223_372_036_832_400_000),  # as Debezium writes -infinity
        ("timestamp", 946_684_800_000_000 - 2**63),
        ("date", -(2**31)),
        ("date", 10_957 - 2**31),
    ],
)
def test_a_moment_before_all_of_postgres_is_refused_and_never_another_moment(stored, type_, number):
    whole = pa.int64() if type_ == "timestamp" else pa.int32()
    moment = pa.array([number], whole).cast(arrow_type(COLUMNS[type_]))
    with pytest.raises(psycopg2.DataError, match="out of range"):
        stored(pa.RecordBatch.from_arrays([moment], names=[COLUMNS[type_].name]), by_text=False)


def test_no_rows_are_no_piece():
    assert list(copy_binary.copy_binary(batch_of({"int": []}))) == []
