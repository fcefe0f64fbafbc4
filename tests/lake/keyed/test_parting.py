"""Tests how an Iceberg table is parted into rows of some keys and all others: whole, by bounds, and some rows at a time."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import EqualTo, Reference
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestWriterV2
from pyiceberg.typedef import Record

from lockstep.adapters.iceberg import keyed
from lockstep.adapters.iceberg import table as of_table
from lockstep.adapters.iceberg.keyed import KeyedTable
from lockstep.adapters.iceberg.keyed_values import Keys, gather_keys, held_rows
from lockstep.adapters.iceberg.rewrite import lake_facts, small_files
from lockstep.adapters.iceberg.schema import make_table
from lockstep.adapters.iceberg.table import LakeTable
from lockstep.core.errors import BadData, Refusal
from lockstep.core.lake.files import Replaced, prefix_of
from lockstep.core.lake.keyed import add_held
from lockstep.core.pipeline.columns import parse_columns

NAME = "lockstep.shop.customers"
COLUMNS = parse_columns("id string, n int")


def made(tmp_path, columns=COLUMNS) -> KeyedTable:
    return KeyedTable(LakeTable(NAME, make_table(f"file://{tmp_path}/{uuid4()}/shop/customers", columns)))


def row(key: Any, offset: int = 0, **more: Any) -> dict[str, Any]:
    return {"_stream": 1, "_offset": offset, "_ordinal": 0, "_batch": 1, "id": key, "n": 1} | more


def holding(table: KeyedTable, *files: list[dict[str, Any]]) -> KeyedTable:
    """Returns the table with these files."""
    paths = [f"{prefix_of(table.location, 1, 1)}/{uuid4()}.parquet" for _ in files]
    for path, rows in zip(paths, files, strict=True):
        table.write(path, pa.Table.from_pylist(rows, schema=table.arrow_schema))
    return KeyedTable(
        LakeTable(NAME, table.prepare(str(uuid4()), paths, (), prefix_of(table.location, 1, 1), {}).after)
    )


def keys(table: KeyedTable, *values: Any, name: str = "id") -> Keys:
    field = table.arrow_schema.field(name)
    return gather_keys((name,), [pa.RecordBatch.from_pydict({name: pa.array(values, field.type)})])


def parted(table: KeyedTable, wanted: Keys, *replaced: Replaced) -> tuple[list[Any], KeyedTable, keyed.Parted]:
    """Returns the keys of the rows that were given away, the table without them, and the files."""
    taken: list[Any] = []
    name = str(uuid4())
    stem = f"{prefix_of(table.location, 2, 2)}/kept-{name}"
    found = table.part(wanted, replaced, stem, lambda rows: taken.extend(rows.to_pylist()))
    after, *_ = table.prepare_keys(name, found, [], {})
    return sorted(each["id"] for each in taken), KeyedTable(LakeTable(NAME, after)), found


def ids_of(table: LakeTable) -> list[Any]:
    return sorted(each["id"] for rows in table.read(["id"]) for each in rows.to_pylist())


def paths_of(table: LakeTable) -> set[str]:
    return {path for path, _, _ in table.files()}


def test_only_files_that_hold_a_key_are_written_anew(tmp_path):
    table = holding(made(tmp_path), [row("a"), row("c")], [row("b"), row("d")], [row("x"), row("z")])
    taken, after, found = parted(table, keys(table, "c", "y"))
    assert (taken, ids_of(after)) == (["c"], ["a", "b", "d", "x", "z"])
    # Bounds of two files hold a key, and one file has it.
    assert (len(found.drops), len(found.kept), len(paths_of(table) & paths_of(after))) == (1, 1, 2)


def test_rows_of_replaced_offsets_go_whatever_their_key(tmp_path):
    table = holding(made(tmp_path), [row("a", 1), row("b", 2), row("c", 3)], [row("d", 9)])
    taken, after, _ = parted(table, keys(table, "zz"), Replaced(1, 2, 4))
    assert (taken, ids_of(after)) == (["b", "c"], ["a", "d"])
    nothing, same, found = parted(table, keys(table), Replaced(2, 0, 9))
    assert (nothing, paths_of(same), found.kept) == ([], paths_of(table), [])


def test_small_files_become_one_and_a_large_one_begins_another(tmp_path, monkeypatch):
    table = holding(made(tmp_path), *([row(f"{n}"), row(f"{n}x")] for n in range(5)))
    wanted = keys(table, *map(str, range(5)))
    _, after, _ = parted(table, wanted)
    assert (len(table.files()), len(after.files()), ids_of(after)) == (5, 1, [f"{n}x" for n in range(5)])
    monkeypatch.setattr(keyed, "SMALL_FILE_BYTES", 1)
    _, after, _ = parted(table, wanted)
    assert (len(after.files()), ids_of(after)) == (5, [f"{n}x" for n in range(5)])


def test_a_rest_that_the_store_does_not_give_back_is_refused(tmp_path, monkeypatch):
    table = holding(made(tmp_path), [row("a", 1), row("b", 2), row("c", 3)])
    writing = pq.ParquetWriter.write_table
    monkeypatch.setattr(pq.ParquetWriter, "write_table", lambda self, rows: writing(self, rows.slice(1)))
    with pytest.raises(BadData, match=r"kept-.* does not hold the rows that were written into it"):
        parted(table, keys(table, "a"))


def deleted_by_others(
    table: KeyedTable, monkeypatch, content: DataFileContent, rows: list[dict[str, Any]]
) -> KeyedTable:
    """Returns the table with a file of deletes, as another engine writes one."""
    path = f"{table.location}/data/{uuid4()}-deletes.parquet"
    local = Path(path.removeprefix("file://"))
    pq.write_table(pa.Table.from_pylist(rows), local)
    ids: dict[str, Any] = {"equality_ids": [table.ids["id"]]} if content == DataFileContent.EQUALITY_DELETES else {}
    file = DataFile.from_args(
        content=content,
        file_path=path,
        file_format="PARQUET",
        partition=Record(),
        record_count=len(rows),
        file_size_in_bytes=local.stat().st_size,
        spec_id=0,
        **ids,
    )
    with monkeypatch.context() as deleting:
        deleting.setattr(ManifestWriterV2, "content", lambda _: ManifestContent.DELETES)
        deleting.setattr(of_table, "file_of_table", lambda *_: file)
        after, *_ = table._prepared(str(uuid4()), [], [path], {})  # noqa: SLF001 - no writer here writes deletes
    return KeyedTable(LakeTable(NAME, after))


def test_rows_that_another_writer_has_deleted_by_position_do_not_come_back(tmp_path, monkeypatch):
    table = holding(made(tmp_path), [row("a", 1), row("b", 2), row("c", 3), row("d", 4)])
    (path,) = paths_of(table)
    gone = [{"file_path": path, "pos": 0}, {"file_path": path, "pos": 1}]
    table = deleted_by_others(table, monkeypatch, DataFileContent.POSITION_DELETES, gone)
    assert ids_of(table) == ["c", "d"]
    taken, after, _ = parted(table, keys(table, "a", "c"))
    assert (taken, ids_of(after)) == (["c"], ["d"])


def test_equality_deletes_of_another_writer_are_refused_by_the_name_of_the_file(tmp_path, monkeypatch):
    table = holding(made(tmp_path), [row("a", 1), row("b", 2)])
    table = deleted_by_others(table, monkeypatch, DataFileContent.EQUALITY_DELETES, [{"id": "b"}])
    for act in (
        lambda: parted(table, keys(table, "a")),
        lambda: table.touched((Replaced(1, 0, 9),)),
        lambda: ids_of(table),
        lambda: small_files(table, 2**30),
    ):
        with pytest.raises(Refusal, match=r"shop\.customers: .*-deletes\.parquet holds equality deletes") as no:
            act()
    assert lake_facts(table, None).equality_deletes == 1
    assert "rewrite_data_files('shop.customers', options" in str(no.value.next_command)


OF_TYPES: list[tuple[str, list[Any]]] = [
    ("string", ["", "a", "ä", "a" * 40, "a" * 40 + "b", "\U0001f600", "\uffff"]),
    ("bigint", [-(2**63), -1, 0, 7, 2**63 - 1]),
    ("int", [-5, 0, 2**31 - 1]),
    ("decimal(12,2)", [Decimal("-1.10"), Decimal("0.00"), Decimal("9999999999.99")]),
    ("date", [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
    ("timestamp", [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(2026, 1, 1, tzinfo=UTC)]),
    ("double", [-0.5, 0.0, float("nan"), float("inf")]),
    ("boolean", [True, False]),
    ("binary", [b"", b"\x00", b"\xff\xff"]),
]


@pytest.mark.parametrize(("type_", "values"), OF_TYPES, ids=[type_ for type_, _ in OF_TYPES])
def test_each_key_of_each_type_is_found_by_its_bounds_and_bits(tmp_path, type_, values):
    """Each value lies in a file of its own, so that a bound that is wrong hides it."""
    table = holding(made(tmp_path, parse_columns(f"id {type_}, n int")), *([row(value)] for value in values))
    for value in values:
        held = [each["id"] for rows in table.rows_of(keys(table, value), ()) for each in rows.to_pylist()]
        assert [str(each) for each in held] == [str(value)]


def in_parts(table: KeyedTable, *parts: list[dict[str, Any]]) -> KeyedTable:
    """Returns the table with one file more, in so many parts."""
    path = f"{prefix_of(table.location, 1, 1)}/{uuid4()}.parquet"
    with pq.ParquetWriter(path.removeprefix("file://"), table.arrow_schema) as file:
        for rows in parts:
            file.write_batch(pa.RecordBatch.from_pylist(rows, schema=table.arrow_schema))
    try:
        return KeyedTable(LakeTable(NAME, table.prepare(str(uuid4()), [path], (), "", {}).after))
    except Refusal as no:
        raise AssertionError(f"the file cannot be the table's: {no}") from no


@pytest.mark.parametrize(
    "odd", ["z" * 5000, "z" * 15 + "\ud7ff" + "a", "\U0010ffff" * 20], ids=["long", "before surrogates", "the last"]
)
def test_a_text_that_has_no_bounds_hides_no_row_of_its_file(tmp_path, odd):
    """Parquet keeps no bounds of a long text, and an upper bound is cut behind a character that has a successor."""
    table = made(tmp_path)
    Path(prefix_of(table.location, 1, 1).removeprefix("file://")).mkdir(parents=True)
    table = in_parts(table, [row("a", 1), row("b", 2)], [row("A", 3), row("c", 4), row(odd, 5)], [row(None, 6)])
    for value in ("a", "A", "c", odd):
        assert [each["id"] for rows in table.rows_of(keys(table, value), ()) for each in rows.to_pylist()] == [value]
        the_same = EqualTo(term=Reference("id"), value=value)  # type: ignore[arg-type]
        scanned = table.opened.scan(row_filter=the_same, selected_fields=("id", "_offset")).to_arrow()
        assert scanned.column("id").to_pylist() == [value]
    assert [task.file.null_value_counts[table.ids["id"]] for task in table.opened.scan().plan_files()] == [1]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.text(max_size=3), st.none() | st.integers(0, 9))),
    st.integers(1, 7),
    st.randoms(),
)
@settings(deadline=None)
def test_an_account_depends_on_no_order_and_on_no_cut_and_a_new_empty_column_changes_it_not(made_rows, cut, shuffled):
    schema = pa.schema(
        [("_batch", pa.int64()), ("_stream", pa.int32()), ("id", pa.string()), ("n", pa.int64()), ("new", pa.string())]
    )
    rows = [{"_batch": b, "_stream": s, "id": i, "n": n, "new": None} for b, s, i, n in made_rows]
    ids = {"_batch": 4, "_stream": 1, "id": 5, "n": 6}
    whole = held_rows(pa.RecordBatch.from_pylist(rows, schema), ids)
    shuffled.shuffle(rows)
    again: dict = {}
    for begin in range(0, len(rows), cut):
        add_held(again, held_rows(pa.RecordBatch.from_pylist(rows[begin : begin + cut], schema), ids | {"new": 7}))
    assert again == whole
    assert {key: n for key, (n, _) in whole.items()} == {
        key: sum((b, s) == key for b, s, _, _ in made_rows) for key in {(b, s) for b, s, _, _ in made_rows}
    }


@pytest.mark.parametrize(
    ("column", "value"), [("n", 2), ("n", None), ("id", "b"), ("_offset", 4), ("_batch", 2), ("_ordinal", 1)]
)
def test_an_account_sees_each_value_that_changes(tmp_path, column, value):
    table = made(tmp_path)
    one, other = (
        held_rows(pa.RecordBatch.from_pylist([each], table.arrow_schema), table.ids)
        for each in (row("a"), row("a") | {column: value})
    )
    assert one != other


def test_values_that_change_places_are_no_equal_account(tmp_path):
    table = made(tmp_path, parse_columns("id string, n int, m int"))
    one, other = (
        held_rows(pa.RecordBatch.from_pylist([row("a", n=n, m=m)], table.arrow_schema), table.ids)
        for n, m in ((1, 2), (2, 1))
    )
    assert one != other
