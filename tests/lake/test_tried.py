"""Tests trials and canaries of pipelines with lake tables: plain tables stand for them, and nothing of the lake is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lake.conftest import ALONE, DEFINITION
from lockstep.dev import canary as door
from lockstep.steps.changes.canary import newest_batches
from lockstep.testing import tried
from support.fakes.plain_engine import PlainEngine
from support.scenes.drill import TARGET

KEYED = ALONE.replace("import Append,", "import Upsert,").replace(
    'Append(Iceberg("sales.drill"))', 'Upsert(Iceberg("sales.drill"), key=("id",))'
)
ELSEWHERE = ALONE.replace("import Append,", "import Append, Idempotent,").replace(
    'Append(Iceberg("sales.drill"))', 'Append(Iceberg("sales.drill", catalog="POLARIS")), guarantee=Idempotent()'
)
WAREHOUSE = ALONE.replace("import Append,", "import Append, Idempotent, Postgres,").replace(
    'Append(Iceberg("sales.drill"))', 'Append("sales.drill"), guarantee=Idempotent(), store=Postgres("WAREHOUSE")'
)
IN_LAKE, IN_DATABASE = "lockstep.sales.drill", "public.drill"
OF_ONE_NAME = DEFINITION.replace('"sales.drill"', '"public.drill"')
RECORDS = [{"id": "a", "n": 1}, {"id": "b", "n": 2}, {"id": "a", "n": 3}]
ALL = [("a", 1), ("b", 2), ("a", 3)]


@pytest.mark.parametrize(
    ("definition", "tables"),
    [
        (ALONE, {IN_LAKE: ALL}),
        (DEFINITION, {IN_LAKE: ALL, IN_DATABASE: ALL, "lockstep.sales.lines": ALL}),
        (OF_ONE_NAME, {"lockstep.public.drill": ALL, IN_DATABASE: ALL, "lockstep.sales.lines": ALL}),
        (KEYED, {IN_LAKE: ALL[1:]}),
        (ELSEWHERE, {"POLARIS.sales.drill": ALL}),
        (WAREHOUSE, {"sales.drill": ALL}),
    ],
    ids=["one", "in both", "of one name in both", "keyed", "elsewhere", "a schema of another store"],
)
def test_records_for_a_lake_are_tried_without_it(tmp_path, monkeypatch, definition, tables):
    (tmp_path / "drill").mkdir()
    (tmp_path / "drill" / "__init__.py").write_text(definition.format(topic="t"))
    if definition in (DEFINITION, OF_ONE_NAME):
        (tmp_path / "drill" / "target.sql").write_text(TARGET)
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(tmp_path))
    monkeypatch.delenv("LOCKSTEP_LAKE", raising=False)

    found = tried("drill", RECORDS)

    assert (found.verdict.refusals, found.rejects) == ((), [])
    assert {row.table for row in found.rows} == set(tables)
    for table, rows in tables.items():
        assert [(row["id"], row["n"]) for row in found.rows_of(table)] == rows
    assert [(each.line, each.table, each.by) for each in found.superseded] == (
        [(1, IN_LAKE, 3)] if definition == KEYED else []
    )


def test_a_canary_compares_what_the_tables_of_a_lake_would_hold_and_moves_no_pointer(lake, monkeypatch):
    lake.drain()
    pointers = [lake.pointer(name) for name in ("drill", "lines")]

    def engine_for(folder, at, _registry):
        code = (lambda value: value | {"n": value["n"] + 1}) if folder.transform == "canary" else lake.code
        return PlainEngine(folder, lake.drill.kafka, at.dsn, code)

    monkeypatch.setattr(door, "local_engine", engine_for)
    past = newest_batches(lake.at, lake.folder, 1)
    (found,) = door.compare_batches(lake.at, lake.folder, replace(lake.folder, transform="canary"), past)

    document = found.document()
    tables = [target.table for target in lake.folder.pipeline.targets]
    changed = {"same": 0, "changed": past[0].offsets, "only_live": 0, "only_canary": 0}
    assert document["targets"] == dict.fromkeys(tables, changed)
    assert {each["target"] for each in document["samples"]} == set(tables)
    assert [lake.pointer(name) for name in ("drill", "lines")] == pointers
