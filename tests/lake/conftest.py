"""Provides a drill that fills a table of the database and two of a lake in a folder."""

from __future__ import annotations

import json
from contextlib import closing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import connect
from lockstep.engine.chosen import engine_of
from lockstep.ledger.migrate import migrate_target
from support.engines import IN_PROCESS
from support.scenes.drill import TARGET, Drill
from support.scenes.here import Here

if TYPE_CHECKING:
    from pathlib import Path

# The extra `lake` is installed with the locks. Without it, these tests are left out.
collect_ignore_glob = [] if find_spec("pyiceberg") else ["test_*.py"]

DEFINITION = """
from lockstep import Append, Iceberg, Json, Limits, Pipeline
P = Pipeline(
    name="drill", topic="{topic}", format=Json("id string, n int"), limits=Limits(records=40),
    target=(Append(Iceberg("sales.drill")), Append("public.drill"), Append(Iceberg("sales.lines"))),
)
"""
ALONE = """
from lockstep import Append, Iceberg, Json, Limits, Pipeline
P = Pipeline(
    name="drill", topic="{topic}", format=Json("id string, n int"), limits=Limits(records=40),
    target=Append(Iceberg("sales.drill")),
)
"""
TABLES = ("drill", "lines")


class InLake(Here):
    """The drill run in this process, and looks at its three tables."""

    def __init__(self, drill: Drill, lake: Path, send: Any) -> None:
        super().__init__(drill)
        self.lake = lake
        self._send = send
        self._sent = 0

    def produce(self, count: int) -> None:
        numbers = range(self._sent, self._sent + count)
        self._send(self.drill.topic, [(f"k{i}", json.dumps({"id": f"r{i}", "n": i})) for i in numbers])
        self._sent += count

    def pointer(self, name: str) -> str:
        found = self.drill.ask("select metadata_location from lockstep_lake.iceberg_tables where table_name = %s", name)
        return str(found[0][0])

    def table(self, name: str = "drill"):
        from lockstep.adapters.iceberg.table import LakeTable  # noqa: PLC0415 - the extra may be missing

        return LakeTable(f"lockstep.sales.{name}", self.pointer(name))

    def rows(self, name: str = "drill") -> list[tuple[Any, ...]]:
        """Returns (stream, offset, ordinal, batch, id, n) of a lake table's rows, in order."""
        names = ["_stream", "_offset", "_ordinal", "_batch", "id", "n"]
        found = [row for batch in self.table(name).read(names) for row in batch.to_pylist()]
        return sorted(tuple(row[column] for column in names) for row in found)

    def in_database(self) -> list[tuple[Any, ...]]:
        return self.drill.ask("select _stream, _offset, _ordinal, _batch, id, n from public.drill order by 1, 2, 3")

    def files(self) -> set[str]:
        return {str(path.relative_to(self.lake)) for path in self.lake.rglob("*") if path.is_file()}


class InProcess(InLake):
    """The drill into one lake table alone, read by this process with the product's own reader."""

    @property
    def engine(self) -> Any:
        def no_spark() -> None:
            raise AssertionError("a small batch started Spark")

        return engine_of(self.folder, self.at.broker, self.at.dsn, lambda: None, IN_PROCESS, no_spark)


@pytest.fixture
def lake(made_lake):
    """Yields the drill with 60 records over two partitions, and its tables made."""
    return made_lake(InLake, DEFINITION)


@pytest.fixture
def of_tasks(made_lake):
    """Yields the same with one lake table as its only target: its rows are never staged."""
    return made_lake(InProcess, ALONE)


@pytest.fixture
def made_lake(database, kafka, topic, produce, tmp_path, monkeypatch):
    """Yields a function that makes a drill with a definition and its tables."""
    from lockstep.steps.lake.open_tables import make_tables  # noqa: PLC0415 - the extra may be missing

    made: list[InLake] = []

    def make(
        kind: type[InLake], definition: str, target_sql: str = "", place: Path = tmp_path / "lake", address: str = ""
    ) -> InLake:
        address = address or f"file://{place}"
        name, home = topic(partitions=2), tmp_path / "pipelines"
        (home / "drill").mkdir(parents=True, exist_ok=True)
        (home / "drill" / "__init__.py").write_text(definition.format(topic=name))
        target_sql = TARGET if definition == DEFINITION else target_sql
        if target_sql:
            (home / "drill" / "target.sql").write_text(target_sql)
        for variable, value in {
            "LOCKSTEP_PIPELINES": home,
            "LOCKSTEP_DSN": database,
            "LOCKSTEP_KAFKA": kafka,
            "LOCKSTEP_LAKE": address,
        }.items():
            monkeypatch.setenv(variable, str(value))
        with closing(connect(database)) as conn:
            folder = load("drill")
            migrate_target(conn, folder)
            make_tables(conn, folder.pipeline, address, [folder.pipeline.columns] * len(folder.pipeline.targets))
        here = kind(Drill(database, kafka, name, home), place, produce)
        made.append(here)
        here.produce(60)
        return here

    yield make
    for here in made:
        here.at.close()
        here.drill.end()
