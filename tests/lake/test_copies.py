"""Tests copies of lake tables in the session: each has a name of its own, and a value that none can hold is one line."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake.keyed.conftest import InKeyed
from lake.test_strangers import LED, as_trino
from lockstep.core.errors import BadData
from lockstep.core.lake.files import prefix_of
from lockstep.steps.proof.verify import verify

NAMESPACE = "a_namespace_of_more_than_forty_characters_in_all"
FIRST, SECOND = (f"{NAMESPACE}.drill_of_the_{which}_kind" for which in ("first", "second"))
BOTH = f"""
from lockstep import Iceberg, Json, Limits, Pipeline, Upsert
P = Pipeline(
    name="drill", topic="{{topic}}", format=Json("id string, n int", key="id"), limits=Limits(records=40),
    target=(Upsert(Iceberg("{FIRST}"), key=("id",)), Upsert(Iceberg("{SECOND}"), key=("id",))),
)
"""


def failed(lake: Any) -> list[str]:
    checks = verify(lake.at.conn, lake.at.broker, lake.folder, deep=True)
    return [f"{check.name}: {check.detail}" for check in checks if not check.ok]


@pytest.mark.long
def test_two_tables_whose_long_names_begin_alike_are_copied_apart(made_lake):
    lake = made_lake(InKeyed, BOTH)
    lake.drain()
    assert lake.replay("0:0,1:0")
    assert failed(lake) == []
    found, _ = lake.preview("replay", "0:0,1:0")
    assert found.document()["targets"].keys() == {f"lockstep.{FIRST}", f"lockstep.{SECOND}"}


@pytest.mark.long
def test_a_text_of_another_writer_that_the_database_does_not_hold_is_named(of_tasks):
    of_tasks.drain()
    table = of_tasks.table()
    one, *_ = (task.file for task in table._plan())  # noqa: SLF001 - no public way replaces a file
    held = pq.read_table(one.file_path.removeprefix("file://"), partitioning=None)
    texts = pa.array(["a\0b", *held["id"].to_pylist()[1:]], pa.string())
    place = held.schema.get_field_index("id")
    path = f"{prefix_of(table.location, 0, 0)}/{uuid4()}.parquet"
    table.write(path, held.set_column(place, held.schema.field("id"), texts).cast(table.arrow_schema))
    as_trino(of_tasks, LED, table._prepared(str(uuid4()), [one], [path], {})[0])  # noqa: SLF001 - as above
    with pytest.raises(BadData, match=r"lockstep\.sales\.drill: another writer has put .*: column id: .* 0x00") as no:
        failed(of_tasks)
    assert no.value.next_command == "correct or delete that row of lockstep.sales.drill, in Spark or Trino"
