"""Tests the digest of values: the same before and after a file, and another one for every change."""

from __future__ import annotations

import operator
from contextlib import closing, nullcontext
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.adapters.iceberg import data_file, values
from lockstep.adapters.iceberg.data_file import CutFiles
from lockstep.adapters.iceberg.values import doubled, is_rising, places_in, stream_sums, value_digests
from lockstep.core.errors import BadData

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), st.text(max_size=9)),
    "bytes": (pa.binary(), st.binary(max_size=9)),
    "whole": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "big": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "yes": (pa.bool_(), st.booleans()),
    "real": (pa.float64(), st.floats(allow_nan=False)),
    "single": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "money": (pa.decimal128(38, 6), st.decimals(places=6, min_value=Decimal(-(10**30)), max_value=Decimal(10**30))),
    "day": (pa.date32(), st.dates()),
    "at": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(UTC))),
}
SCHEMA = pa.schema(
    [
        *(("_stream", pa.int32()), ("_offset", pa.int64()), ("_ordinal", pa.int32())),
        *((name, type_) for name, (type_, _) in KINDS.items()),
    ]
)
ROW = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in KINDS.items()})


def batch(rows: list[dict[str, Any]], streams: int = 2) -> pa.RecordBatch:
    numbered = [row | {"_stream": i % streams, "_offset": i, "_ordinal": 0} for i, row in enumerate(rows)]
    return pa.RecordBatch.from_pylist(numbered, schema=SCHEMA)


def total(rows: pa.RecordBatch) -> dict[int, int]:
    return value_digests(rows, [*KINDS])


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=9), data=st.data())
def test_a_digest_is_that_of_the_values_and_of_nothing_else(tmp_path_factory, rows, data):
    whole = batch(rows)
    path = tmp_path_factory.getbasetemp() / "digested.parquet"
    pq.write_table(pa.Table.from_batches([whole]), path, compression="zstd")
    (read,) = pq.read_table(path).combine_chunks().to_batches()
    assert total(read) == total(whole)
    # Wherever the rows are cut, and in whatever order, the sums are the same.
    cut = data.draw(st.integers(0, len(rows)))
    parts = [total(part) for part in (whole.slice(cut), whole.slice(0, cut))]
    assert {s: sum(part.get(s, 0) for part in parts) for s in total(whole)} == total(whole)
    # Any other value, and two values that change places, have another digest.
    name = data.draw(st.sampled_from([*KINDS]))
    place = data.draw(st.integers(0, len(rows) - 1))
    other = data.draw(st.none() | KINDS[name][1])
    changed = [row | ({name: other} if i == place else {}) for i, row in enumerate(rows)]
    same = batch(changed).column(name).equals(whole.column(name)) or (other == rows[place][name] == 0)
    assert (total(batch(changed)) == total(whole)) == same


def test_a_value_counts_by_what_it_is_and_not_by_its_width():
    narrow = pa.RecordBatch.from_pydict(
        {"_stream": [1], "_offset": [7], "_ordinal": [0], "n": pa.array([5], pa.int32())}
    )
    wide = pa.RecordBatch.from_pydict({"_stream": [1], "_offset": [7], "_ordinal": [0], "n": pa.array([5], pa.int64())})
    assert value_digests(narrow, ["n"]) == value_digests(wide, ["n"])
    for one, other in ((0.0, -0.0), (float("nan"), -float("nan"))):
        each = [
            pa.RecordBatch.from_pydict({"_stream": [1], "_offset": [7], "_ordinal": [0], "n": [value]})
            for value in (one, other)
        ]
        assert value_digests(each[0], ["n"]) == value_digests(each[1], ["n"])


@pytest.mark.parametrize("size", [0, 1, 2**16, 2**16 + 1, 3 * 2**20])
def test_texts_of_every_size_have_a_digest(size):
    letters = "x" * size
    rows = [{"text": letters}, {"text": f"{letters}y"}, {"text": None}, {"text": letters}]
    first = total(batch(rows, streams=4))
    assert len(set(first.values())) == 4
    assert total(batch([*rows[:3], {"text": f"{letters}y"}], streams=4))[3] != first[3]


ODD, WORD = 0x9E3779B97F4A7C15, 2**64


def spread(word: int) -> int:
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        word = (word ^ (word >> shift)) * factor % WORD
    return word


def of_text(text: bytes) -> int:
    powers = [pow(ODD, place + 1, WORD) for place in range(len(text))]
    return spread((sum(map(operator.mul, text, powers)) + len(text) * 0xBF58476D1CE4E5B9) % WORD)


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.none() | st.binary(max_size=40), min_size=1, max_size=30), cut=st.integers(0, 5))
def test_a_text_has_the_number_that_its_letters_and_their_places_give(texts, cut):
    """A ledger keeps these numbers, so no other way to them may change one."""
    column = pa.array(texts, pa.binary()).slice(cut)
    wanted = [int(values.NULL_WORD) if text is None else of_text(text) for text in texts[cut:]]
    assert values.words_of(column).tolist() == wanted
    if None not in texts[cut:]:
        texts_of = values._texts  # noqa: SLF001 - beside the way by distinct values
        assert texts_of(column).tolist() == wanted
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(values, "LETTERS_A_STEP", 0)
            assert texts_of(column).tolist() == wanted


def test_the_digest_of_a_row_stays_as_a_ledger_keeps_it():
    row = {"text": "ä€", "bytes": b"\x00", "whole": -1, "big": 2**62, "yes": True, "real": 0.5, "single": -0.25}
    row |= {"money": Decimal("-1.5"), "day": date(1969, 12, 31), "at": datetime(2026, 5, 1, 12, tzinfo=UTC)}
    assert total(batch([row, {}], streams=1)) == {0: 13930701365072550493}


def test_sums_are_exact_and_a_doubled_place_is_found():
    far = 2**62
    rows = pa.RecordBatch.from_pydict({"_stream": [1, 1, 2], "_offset": [far, far + 2**40, 5], "_ordinal": [0, 0, 0]})
    assert stream_sums(rows) == {
        1: (2, 2 * far + 2**40, far * far + (far + 2**40) ** 2, far, far + 2**40),
        2: (1, 5, 25, 5, 5),
    }
    each = {"_ordinal": [0, 0, 1, 0], "_stream": [1, 1, 1, 2], "_offset": [3, 2, 2, 3]}
    assert doubled(places_in(pa.table(each))) is None
    assert doubled(places_in(pa.table(each | {"_stream": [1, 1, 1, 1], "_offset": [2, 3, 3, 2]}))) == (1, 2, 0)
    rows = pa.table(each).take([1, 2, 0, 3])
    assert is_rising(places_in(rows))
    for order in ([0, 0, 1, 2, 3], [0, 1, 1, 2, 3], [0, 1, 2, 3, 3], [1, 0, 2, 3], [0, 2, 1, 3], [3, 0, 1, 2]):
        assert not is_rising(places_in(rows.take(order)))


def test_values_that_repeat_get_a_dictionary_and_all_come_back_as_they_were(tmp_path):
    rows = pa.RecordBatch.from_pydict(
        {
            "unique": [f"record-{n}" for n in range(2_000)],
            "repeated": [f"kind-{n % 7}" for n in range(2_000)],
            "money": pa.array([Decimal(n).scaleb(-2) for n in range(2_000)], pa.decimal128(12, 2)),
        }
    )
    with closing(data_file.RowGroups(tmp_path / "file.parquet", rows.schema)) as groups:
        groups.write(rows)
    footer = pq.read_metadata(tmp_path / "file.parquet").row_group(0)
    found = {column.path_in_schema: column for column in map(footer.column, range(3))}
    assert ["RLE_DICTIONARY" in found[name].encodings for name in rows.schema.names] == [False, True, False]
    assert found["money"].physical_type == "INT64"
    assert pq.read_table(tmp_path / "file.parquet").to_batches()[0] == rows


def test_rows_are_cut_into_files_and_no_two_of_them_have_one_key(tmp_path, monkeypatch):
    monkeypatch.setattr(data_file, "ROWS_PER_FILE", 3)
    schema = pa.schema([(name, pa.int64()) for name in ("_stream", "_offset", "_ordinal")])

    def cut(*parts: list[tuple[int, int, int]]) -> list[list[tuple[int, int, int]]]:
        paths = []
        with CutFiles(7, schema, lambda n: paths.append(tmp_path / f"{n}.parquet") or nullcontext(paths[-1])) as files:
            for part in parts:
                files.write(
                    pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in part], schema)
                )
        return [[tuple(row.values()) for row in pq.read_table(path).to_pylist()] for path in paths]

    first, second, third = [(1, 5, 0), (1, 5, 1)], [(1, 6, 0), (2, 5, 0)], [(2, 5, 1)]
    assert cut(first, second, third) == [[*first, *second], third]
    assert cut() == []
    for parts in ([(1, 5, 0), (1, 5, 0)],), ([(1, 4, 0), (1, 5, 0)], [(1, 5, 0), (1, 6, 0)]):
        with pytest.raises(BadData, match="batch 7: stream 1 offset 5 has two rows with _ordinal 0"):
            cut(*parts)
