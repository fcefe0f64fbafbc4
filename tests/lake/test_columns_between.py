"""Tests that a batch goes into no table whose columns another writer has changed since the batch was read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from lake.conftest import ALONE, InLake, InProcess
from lake.keyed.conftest import BOTH, InKeyed
from lake.test_strangers import LED, as_trino, failed
from lake.test_upkeep import batches, kept
from lockstep.core.errors import Refusal
from lockstep.steps.lake import keep_tables, stage_files
from lockstep.steps.lake.copy_tables import AS_WRITTEN
from lockstep.steps.proof.verify import verify
from support.scenes.here import NEWEST

if TYPE_CHECKING:
    from collections.abc import Callable

    Document = dict[str, Any]

NEW_ID = 99


def led_to_changed(lake: InLake, change: Callable[[Document], None]) -> None:
    """Does what another writer does who alters the table, and makes no snapshot."""
    file = Path(lake.pointer("drill").removeprefix("file://"))
    document = json.loads(file.read_text())
    change(document)
    other = file.with_name(f"00099-{uuid4()}.metadata.json")
    other.write_text(json.dumps(document | {"last-column-id": NEW_ID}))
    as_trino(lake, LED, f"file://{other}")


def drop(document: Document) -> None:
    fields = document["schemas"][0]["fields"]
    fields[:] = [field for field in fields if field["name"] != "n"]


def rename(document: Document) -> None:
    for field in document["schemas"][0]["fields"]:
        field["name"] = {"n": "number"}.get(field["name"], field["name"])


def make_anew(document: Document) -> None:
    for field in document["schemas"][0]["fields"]:
        field["id"] = NEW_ID if field["name"] == "n" else field["id"]


def require_more(document: Document) -> None:
    more = {"id": NEW_ID, "name": "extra", "required": True, "type": "string"}
    document["schemas"][0]["fields"].append(more)


def part(document: Document) -> None:
    by = {"spec-id": 1, "fields": [{"name": "b", "transform": "identity", "source-id": 4, "field-id": 1000}]}
    document["partition-specs"].append(by)
    document |= {"default-spec-id": 1, "last-partition-id": 1000}


ALTER = "alter table lockstep.sales.drill, by Spark or Trino"
NO_COLUMN = ("lockstep.sales.drill: it has no column n, which takes int", ALTER)
WHY: dict[Any, tuple[str, str]] = {
    drop: NO_COLUMN,
    rename: NO_COLUMN,
    make_anew: (
        "the column n of lockstep.sales.drill is not the one that the batch's files were",
        "lockstep run drill",
    ),
    require_more: ("its column extra is required, and a record may leave it empty", ALTER),
    part: ("it is partitioned by b, and tables without partitions are written here", ALTER),
}
WAYS = {"tasks": (InProcess, ALONE, ""), "staged": (InLake, ALONE, ""), "keyed": (InKeyed, BOTH, NEWEST)}
CASES = [
    ("tasks", drop),
    ("tasks", make_anew),
    ("staged", drop),
    *(
        pytest.param(way, change, marks=pytest.mark.long)
        for way, change in (
            *(("tasks", each) for each in (rename, require_more, part)),
            *(("staged", each) for each in (rename, require_more, part)),
            *(("keyed", each) for each in (drop, rename, require_more, part)),
        )
    ),
]


@pytest.mark.parametrize(("way", "change"), CASES)
def test_columns_that_change_between_read_and_commit_refuse_the_batch_by_name(made_lake, monkeypatch, way, change):
    from lockstep.steps.batch import run as runs  # noqa: PLC0415 - looked at between two steps

    if way == "staged":  # as for a pipeline with expectations
        monkeypatch.setattr(stage_files, "is_preview", lambda *_: True)
    lake = made_lake(*WAYS[way])
    lake.run()
    validate, pointers = runs.validate, []

    def changed_before(*given: Any, **more: Any) -> Any:
        led_to_changed(lake, change)
        pointers.append(lake.pointer("drill"))
        return validate(*given, **more)

    with monkeypatch.context() as between:
        between.setattr(runs, "validate", changed_before)
        with pytest.raises(Refusal) as refused:
            lake.run()

    assert (WHY[change][0] in refused.value.message, refused.value.next_command) == (True, WHY[change][1])
    assert [lake.pointer("drill")] == pointers
    assert lake.drill.ask("select count(distinct batch_id) from lockstep.commit") == [(1,)]


@pytest.mark.long
def test_a_column_that_was_made_anew_gets_the_values_of_the_next_attempt(of_tasks, monkeypatch):
    from lockstep.steps.batch import run as runs  # noqa: PLC0415 - as above

    validate = runs.validate
    with monkeypatch.context() as between:
        between.setattr(runs, "validate", lambda *a, **k: (led_to_changed(of_tasks, make_anew), validate(*a, **k))[1])
        with pytest.raises(Refusal, match="is not the one that the batch's files were written for"):
            of_tasks.run()
    of_tasks.drain()
    assert sorted(row[4:] for row in of_tasks.rows()) == sorted((f"r{i}", i) for i in range(60))
    assert failed(of_tasks) == {}


@pytest.mark.long
def test_verify_names_a_column_that_is_required_of_rows_without_it(of_tasks):
    of_tasks.run()
    led_to_changed(of_tasks, require_more)
    with pytest.raises(Refusal, match=r"lockstep\.sales\.drill: its column extra is required") as refused:
        failed(of_tasks)
    assert refused.value.next_command == "alter table lockstep.sales.drill drop column extra, by Spark or Trino"


@pytest.mark.long
def test_upkeep_gives_a_merge_up_whose_columns_have_changed(of_tasks, monkeypatch):
    of_tasks.drain()
    batches(of_tasks, 5)
    reach = keep_tables.reach

    def changed_at(point: str) -> None:
        reach(point)
        if point == "lake.upkeep_merged":
            led_to_changed(of_tasks, drop)

    monkeypatch.setattr(keep_tables, "reach", changed_at)
    (done,) = kept(of_tasks)
    assert [line for line in done.left if "has changed the column n of the files that were merged" in line] == done.left
    assert (len(done.left), done.merged_files) == (1, 0)


@pytest.mark.long
@pytest.mark.parametrize(("change", "left"), [(drop, "id string"), (rename, "id string, number int")])
def test_values_of_a_column_that_the_table_has_no_more_are_left_out_and_others_are_compared(of_tasks, change, left):
    of_tasks.drain()
    led_to_changed(of_tasks, change)
    of_tasks.rewrite("id string, n int", left)
    of_tasks.produce(7)
    of_tasks.drain()

    checks = verify(of_tasks.at.conn, of_tasks.at.broker, of_tasks.folder, deep=False)

    assert [(check.name, check.detail) for check in checks if not check.ok] == []
    (values,) = [check for check in checks if check.name == AS_WRITTEN]
    assert "segments had another column n of lockstep.sales.drill" in values.left_out
    assert values.proves == "contents"
