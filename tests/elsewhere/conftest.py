"""Provides a drill into a table whose catalog is elsewhere, behind a small server of the REST protocol."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from lockstep.adapters.folders import load
from lockstep.context.systems import dsn, stores
from lockstep.targets.stores.stores import results_of
from stores.conftest import Delivered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elsewhere.rest_catalog import RestCatalogServer

# The extra `lake` is installed with the locks. Without it, these tests are left out.
collect_ignore_glob = [] if find_spec("pyiceberg") else ["test_*.py"]

DEFINITION = """
from lockstep import *
P = Pipeline(
    name="drill", topic="{topic}", format=Json("id string, n int", key="id"),
    target=Append(Iceberg("web.drill", catalog="POLARIS")), limits=Limits(records=200), guarantee={guarantee},
)
"""
RECORDS = 150
IDENTIFIER = ("web", "drill")


class Elsewhere(Delivered):
    """The drill, with a look at the table by pyiceberg alone."""

    server: RestCatalogServer
    send: Any

    @property
    def table(self) -> Any:
        return self.server.catalog.load_table(IDENTIFIER)

    def rows(self, columns: str = "_stream, _offset, _ordinal") -> list[tuple]:
        names = [name.strip() for name in columns.split(",")]
        found = self.table.scan(selected_fields=tuple(names)).to_arrow()
        return sorted(zip(*(found.column(name).to_pylist() for name in names), strict=True))

    def settle(self, **more: Any) -> dict[str, Any]:
        return {"uri": self.server.uri, "patience": 3, **more}

    def expire(self) -> None:
        """Does what a stranger does who expires all snapshots but the newest, behind one of their own."""
        table = self.table
        table.append(table.scan().to_arrow().slice(0, 0))
        kept = table.refresh().metadata.current_snapshot_id
        gone = [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id != kept]
        table.maintenance.expire_snapshots().by_ids(gone).commit()


@pytest.fixture
def server(tmp_path) -> Iterator[RestCatalogServer]:
    from elsewhere.rest_catalog import RestCatalogServer  # noqa: PLC0415 - the extra may be missing

    made = RestCatalogServer(tmp_path / "catalog")
    yield made
    made.close()


@pytest.fixture
def elsewhere(database, kafka, topic, produce, tmp_path, monkeypatch, server):
    """Yields `elsewhere("Idempotent()")`: it makes a drill with 150 records over three partitions, and its table."""
    made: list[Elsewhere] = []

    def make(guarantee: str = "Idempotent()") -> Elsewhere:
        name, home = topic(partitions=3), tmp_path / "pipelines"
        (home / "drill").mkdir(parents=True)
        (home / "drill" / "__init__.py").write_text(DEFINITION.format(topic=name, guarantee=guarantee))
        drill = Elsewhere(database, kafka, name, home)
        drill.server, drill.send = server, produce
        for variable, value in {
            "LOCKSTEP_PIPELINES": home,
            "LOCKSTEP_DSN": database,
            "LOCKSTEP_KAFKA": kafka,
            "LOCKSTEP_CATALOG_POLARIS": json.dumps(drill.settle()),
        }.items():
            monkeypatch.setenv(variable, str(value))
        folder = load("drill")
        assert results_of(folder.pipeline, dsn(), stores()).make(folder) == "POLARIS.web.drill"
        produce(name, [(f"k{i}", json.dumps({"id": f"r{i}", "n": i})) for i in range(RECORDS)])
        made.append(drill)
        return drill

    yield make
    for drill in made:
        drill.end()


def more(drill: Elsewhere, prefix: str, count: int) -> None:
    """Produces records more. Their keys are new."""
    drill.send(drill.topic, [(f"{prefix}{i}", json.dumps({"id": f"{prefix}{i}", "n": i})) for i in range(count)])
