"""Tests what is prepared for an Iceberg table in a folder: the next state is whole, and nothing of the present one changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest

from lockstep.adapters.iceberg import history
from lockstep.adapters.iceberg import table as prepares
from lockstep.adapters.iceberg.expiry import prepare_expiry
from lockstep.adapters.iceberg.history import damaged_files
from lockstep.adapters.iceberg.rewrite import lake_facts
from lockstep.adapters.iceberg.schema import make_table
from lockstep.adapters.iceberg.table import LakeTable
from lockstep.core.errors import Refusal
from lockstep.core.lake.files import Replaced, prefix_of
from lockstep.core.pipeline.columns import parse_columns

if TYPE_CHECKING:
    from collections.abc import Iterable

NAME = "lockstep.sales.orders"
COLUMNS = parse_columns("order_id string, amount decimal(12,2)")


@pytest.fixture
def table(tmp_path):
    return LakeTable(NAME, make_table(f"file://{tmp_path}/sales/orders", COLUMNS))


def written(table: LakeTable, rows: Iterable[tuple[int, int, int]], batch: int = 1) -> str:
    """Writes a file with these (batch, stream, offset). Returns its path."""
    path = f"{prefix_of(table.location, batch, 7)}/{uuid4()}.parquet"
    columns: list[dict[str, Any]] = [
        {"_stream": s, "_offset": o, "_ordinal": 0, "_batch": b, "order_id": f"{s}-{o}"} for b, s, o in rows
    ]
    table.write(path, pa.Table.from_pylist(columns, schema=table.arrow_schema))
    return path


def moved(table: LakeTable, files: list[str], *replaced: Replaced, batch: int = 1) -> LakeTable:
    """Prepares a move and looks at the table as if its pointer had moved."""
    prefix = prefix_of(table.location, batch, 7)
    return LakeTable(NAME, table.prepare(str(uuid4()), files, replaced, prefix, {"lockstep.batch": str(batch)}).after)


def held(table: LakeTable) -> list[tuple[int, int, int]]:
    rows = [row for batch in table.read(["_batch", "_stream", "_offset"]) for row in batch.to_pylist()]
    return sorted((row["_batch"], row["_stream"], row["_offset"]) for row in rows)


def on_disk(table: LakeTable) -> set[str]:
    return {str(path) for path in Path(table.location.removeprefix("file://")).rglob("*") if path.is_file()}


def test_what_is_prepared_shows_only_by_its_own_address(table):
    path = written(table, [(1, 3, 0), (1, 3, 1)])
    after = moved(table, [path])
    assert held(after) == [(1, 3, 0), (1, 3, 1)]
    assert after.files() == [(path, 2, Path(path.removeprefix("file://")).stat().st_size)]
    assert held(LakeTable(NAME, table.address)) == []
    assert (after.uuid, len(after.snapshots), after.snapshots[1:]) == (table.uuid, 1, table.snapshots)


def test_a_preparation_deletes_no_old_metadata(tmp_path):
    address = make_table(f"file://{tmp_path}/sales/orders", COLUMNS)
    file = Path(address.removeprefix("file://"))
    document = json.loads(file.read_text())
    document["properties"] |= {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1",
    }
    file.write_text(json.dumps(document))
    table = LakeTable(NAME, address)
    for batch in range(4):
        before = on_disk(table)
        table = moved(table, [written(table, [(batch, 3, batch)], batch)], batch=batch)
        assert before <= on_disk(table)
    assert held(table) == [(batch, 3, batch) for batch in range(4)]


@pytest.mark.parametrize("type_", ["uuid", "time", "timestamp", "fixed[16]", "list<int>"])
def test_a_strangers_column_of_another_type_is_named_with_its_table(tmp_path, type_):
    address = make_table(f"file://{tmp_path}/sales/orders", COLUMNS)
    nested = {"type": "list", "element-id": 10, "element": "int", "element-required": False}
    with_column(address, {"id": 9, "name": "extra", "required": False, "type": nested if "<" in type_ else type_})
    table = LakeTable(NAME, address)
    assert str(table.misfit(COLUMNS)) == f"its column extra is {type_}, a type that is neither read nor written here"
    for look in (lambda: table.arrow_schema, lambda: table.postgres_columns, lambda: list(table.read(["_batch"]))):
        with pytest.raises(Refusal, match="neither read nor written") as refused:
            look()
        assert str(refused.value).startswith(f"{NAME}: its column extra is {type_}, a type ")
        assert refused.value.next_command == f"alter table {NAME} drop column extra, by Spark or Trino"


def with_column(address: str, field: dict[str, Any]) -> None:
    """Adds a column to the table's metadata, as another writer would."""
    file = Path(address.removeprefix("file://"))
    document = json.loads(file.read_text())
    document["schemas"][0]["fields"].append(field)
    file.write_text(json.dumps(document | {"last-column-id": 10}))


def test_a_replay_drops_whole_files_by_bounds_and_rewrites_shared_ones(table):
    whole = written(table, [(1, 3, 0), (1, 3, 1)])
    shared = written(table, [(2, 3, 2), (2, 4, 0), (2, 4, 1)], 2)
    far = written(table, [(3, 5, 0)], 3)
    table = moved(moved(table, [whole, shared]), [far])
    new = written(table, [(4, 3, 0), (4, 3, 2)], 4)
    replaced = (Replaced(3, 0, 3),)
    assert {(path, is_whole) for path, _, is_whole in table.touched(replaced)} == {(whole, True), (shared, False)}
    made = table.prepare(str(uuid4()), [new], replaced, prefix_of(table.location, 4, 7), {})
    assert (made.added, made.removed, made.rewritten, made.withdrawn) == (1, 2, 1, 3)
    after = LakeTable(NAME, made.after)
    assert held(after) == [(2, 4, 0), (2, 4, 1), (3, 5, 0), (4, 3, 0), (4, 3, 2)]
    assert {path for path, _, _ in after.files()} >= {new, far}
    assert all("/data/lockstep/4.7/kept-" in p for p, _, _ in after.files() if p not in {new, far})
    assert held(table) == [(1, 3, 0), (1, 3, 1), (2, 3, 2), (2, 4, 0), (2, 4, 1), (3, 5, 0)]  # a reader of the old one


def test_a_file_whose_bounds_overlap_and_whose_rows_stay_is_left_alone(table):
    path = written(table, [(1, 3, 0), (1, 5, 9)])
    table = moved(table, [path])
    made = table.prepare(str(uuid4()), [], (Replaced(4, 0, 10),), prefix_of(table.location, 2, 7), {})
    assert (made.removed, made.rewritten, made.withdrawn) == (0, 0, 0)
    assert [path for path, _, _ in LakeTable(NAME, made.after).files()] == [path]


def test_an_empty_batch_is_a_snapshot_without_a_file(table):
    after = moved(table, [])
    assert (held(after), len(after.snapshots)) == ([], 1)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ("order_id string, amount decimal(12,2)", None),
        ("order_id string", None),
        ("order_id string, amount decimal(10,2)", None),
        ("order_id string, amount decimal(12,3)", r"amount is decimal\(12, 2\), and decimal\(12, 3\) is needed"),
        ("order_id int", "order_id is string, and int is needed"),
        ("customer string", "has no column customer"),
    ],
)
def test_columns_fit_by_name_and_type(table, columns, why):
    found = table.misfit(parse_columns(columns))
    assert (found is None) == (why is None)
    if why:
        with pytest.raises(Refusal, match=why):
            raise Refusal(str(found))


@pytest.mark.parametrize("key", ["write.py-location-provider.impl", "py-io-impl"])
def test_a_table_that_names_code_is_refused_before_it_runs(tmp_path, key):
    address = make_table(f"file://{tmp_path}/sales/orders", COLUMNS)
    file = Path(address.removeprefix("file://"))
    document = json.loads(file.read_text())
    document["properties"][key] = "os.system"
    file.write_text(json.dumps(document))
    with pytest.raises(Refusal, match=f"{key} would run code"):
        LakeTable(NAME, address)


def test_metadata_that_is_missing_or_none_is_one_line(table):
    file = Path(table.address.removeprefix("file://"))
    file.write_text("<html>")
    with pytest.raises(Refusal, match="no metadata of Iceberg"):
        LakeTable(NAME, table.address)
    file.unlink()
    with pytest.raises(Refusal, match="a file is missing"):
        LakeTable(NAME, table.address)


@pytest.mark.parametrize("pattern", ["snap-*.avro", "*-m0.avro"])
@pytest.mark.parametrize("content", [None, b""], ids=["missing", "empty"])
def test_a_list_of_files_that_is_missing_or_empty_is_one_line(table, pattern, content):
    table = moved(table, [written(table, [(1, 3, 0)])])
    for file in Path(table.address.removeprefix("file://")).parent.glob(pattern):
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content)
    for look in (table.files, lambda: damaged_files(table), lambda: lake_facts(table, None), lambda: held(table)):
        with pytest.raises(Refusal, match=rf"^{NAME}: file:.*: (a file is missing|this is no metadata of Iceberg)"):
            look()


def test_a_clock_that_is_behind_writes_no_time_before_those_that_are_there(table):
    table = moved(table, [written(table, [(1, 3, 0)])])
    ahead = 3_600_000  # of the machine that has written so far
    file = Path(table.address.removeprefix("file://"))
    document = json.loads(file.read_text())
    document["last-updated-ms"] += ahead
    for entry in (*document["snapshots"], *document["snapshot-log"]):
        entry["timestamp-ms"] += ahead
    file.write_text(json.dumps(document))
    table = moved(LakeTable(NAME, table.address), [written(table, [(2, 3, 1)], 2)], batch=2)
    table = LakeTable(NAME, prepare_expiry(table, str(uuid4()), [table.snapshots[-1]])[0].after)
    metadata = table.opened.metadata
    times = [entry.timestamp_ms for entry in metadata.snapshot_log]
    assert times == sorted(times)
    assert times[-1] > document["last-updated-ms"]
    assert metadata.last_updated_ms >= times[-1] == metadata.current_snapshot().timestamp_ms
    logged = [entry.timestamp_ms for entry in metadata.metadata_log]
    assert logged == sorted(logged)


def test_a_preparation_makes_what_pyiceberg_makes_of_the_whole_history(table, monkeypatch):
    """It is given the newest snapshots alone. The others, their log and their tags come through unchanged."""
    for batch in range(4):
        table = moved(table, [written(table, [(batch, 3, batch)], batch)], batch=batch)
    file = Path(table.address.removeprefix("file://"))
    document = json.loads(file.read_text())
    document["refs"]["kept"] = {"snapshot-id": document["snapshots"][1]["snapshot-id"], "type": "tag"}
    file.write_text(json.dumps(document))
    table = LakeTable(NAME, table.address)
    files = [written(table, [(9, 4, 0)], batch=9)]
    short = json.loads(Path(moved(table, files).address.removeprefix("file://")).read_text())
    with monkeypatch.context() as plain:
        plain.setattr(prepares, "without_history", lambda whole: whole)
        plain.setattr(history, "with_history", lambda changed, _: changed)
        whole = json.loads(Path(moved(table, files).address.removeprefix("file://")).read_text())
    assert [s["snapshot-id"] for s in short["snapshots"][:-1]] == [s["snapshot-id"] for s in document["snapshots"]]
    assert short["snapshot-log"][:-1] == document["snapshot-log"]
    assert short["refs"]["kept"] == document["refs"]["kept"]
    assert without_chance(short) == without_chance(whole)


def without_chance(document: dict[str, Any]) -> dict[str, Any]:
    """Returns a metadata document without the newest snapshot's id, its paths and all times."""
    newest = document["current-snapshot-id"]
    text = json.dumps(document).replace(str(newest), "0")
    found = json.loads(text)
    for each in (*found["snapshots"], *found["snapshot-log"], *found["metadata-log"]):
        each.pop("timestamp-ms")
    found["snapshots"][-1].pop("manifest-list")
    found.pop("last-updated-ms")
    return found
