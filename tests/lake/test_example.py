"""Tests the example that fills a lake table, as `make demo` shows it: DuckDB reads each sale once."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import connect
from lockstep.context.systems import warehouse
from lockstep.core.planning.decisions import Caller
from lockstep.dev.catalogue import SAMPLES
from lockstep.dev.records.scanning import ShopSales, scan_sales
from lockstep.engine.chosen import engine_of
from lockstep.steps.batch.run import until_idle
from lockstep.steps.context import Context
from lockstep.steps.proof.verify import verify
from support.engines import IN_PROCESS

EXAMPLES = Path(__file__).parents[2] / "include" / "pipelines"
COUNT = 2_000


@pytest.mark.long
def test_the_example_keeps_every_sale_once_and_starts_no_jvm(database, kafka, topic, produce, tmp_path, monkeypatch):
    from lockstep.steps.lake.open_tables import make_tables, open_tables  # noqa: PLC0415 - the extra may be missing

    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(EXAMPLES))
    loaded = load("sold")
    folder = replace(loaded, pipeline=replace(loaded.pipeline, topic=topic(partitions=3)))
    sent = list(SAMPLES["sold"].records(0, 0, COUNT))
    with closing(connect(database)) as conn:
        make_tables(conn, folder.pipeline, f"file://{tmp_path}/lake", [folder.pipeline.columns])
        produce(folder.pipeline.topic, [(record.key, record.value) for record in sent])
        at = Context(database, Broker(kafka), {})

        def no_spark() -> None:
            raise AssertionError("a small batch started Spark")

        engine = engine_of(folder, at.broker, at.dsn, lambda: None, IN_PROCESS, no_spark)
        assert sum(report.went_on for report in until_idle(at, engine, folder, Caller("test"), 1)) == 1
        paths = [path.removeprefix("file://") for path, _, _ in open_tables(conn, folder.pipeline)[0].files()]
        found = scan_sales(paths)
        assert [check.name for check in verify(conn, at.broker, folder, deep=True) if not check.ok] == []
        at.close()
    assert sum(each.sales for each in found) == sum(each.offsets for each in found) == COUNT
    assert found[0] == of_shop(sent, "East")
    assert [each.shop for each in found] == ["East", "North", "South", "West"]


def of_shop(sent, name: str) -> ShopSales:
    """Returns what the samples say of one shop, summed by the test itself."""
    its = [value for value in (json.loads(record.value) for record in sent) if value["shop"] == name]
    return ShopSales(name, len(its), len(its), sum(Decimal(value["amount"]) for value in its))


def test_the_lake_of_the_embedded_stack_is_its_folder_and_only_for_its_own_ledger(tmp_path, monkeypatch):
    """A ledger elsewhere must not get a table in a folder that only this machine has."""
    (tmp_path / "stack.json").write_text(
        json.dumps({"dsn": "host=here", "kafka": "k", "postgres": None, "broker": None})
    )
    monkeypatch.setenv("LOCKSTEP_HOME", str(tmp_path))
    for name in ("LOCKSTEP_LAKE", "LOCKSTEP_DSN"):
        monkeypatch.delenv(name, raising=False)
    assert warehouse() == f"file://{tmp_path}/lake"
    monkeypatch.setenv("LOCKSTEP_DSN", "host=elsewhere")
    assert warehouse() == ""
    monkeypatch.setenv("LOCKSTEP_LAKE", "file:///srv/lake")
    assert warehouse() == "file:///srv/lake"
