"""Tests every folder of include/pipelines as an example: short, without a fault, and run over its own records."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import connect
from lockstep.core.pipeline.guarantees import Delivered
from lockstep.core.planning.decisions import Caller, Idle
from lockstep.dev.catalogue import SAMPLES
from lockstep.engine.spark.engine import SparkEngine
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.run import until_idle
from lockstep.steps.context import Context
from lockstep.steps.inspect.check import faults
from lockstep.steps.proof.verify import verify
from lockstep.targets.stores.stores import results_of
from support.oracles.checker import at_end

if TYPE_CHECKING:
    from collections.abc import Sequence

PIPELINES = Path(__file__).parents[2] / "include" / "pipelines"
NAMES = sorted(folder.parent.name for folder in PIPELINES.glob("*/__init__.py"))
LINES = 40
AT = "2026-01-02T03:04:05Z"


@dataclass(frozen=True)
class Example:
    """Records for a pipeline's topic, with the number of rows in each target and of rejects."""

    records: Sequence[tuple[bytes | str, bytes | str | None]]
    rows: tuple[int, ...]
    rejects: int = 0


def plain(number: int, **fields: Any) -> tuple[str, str]:
    return str(number), json.dumps(fields | {"at": AT})


def signup(number: int, **fields: str | None) -> tuple[str, str]:
    value = {"signup_id": f"s{number}", "email": f"p{number}@example.com", "country": "de", "source": "web"}
    return plain(number, **value | fields)


def basket(number: int, lines: int) -> tuple[str, str]:
    bought = json.dumps([{"sku": f"sku-{each}", "quantity": 1, "price": "9.90"} for each in range(lines)])
    value = {"basket_id": f"b{number}", "customer": "c1", "placed_at": AT, "lines": bought}
    return f"b{number}", json.dumps(value)


ORDERS = list(SAMPLES["orders"].records(0, 0, 2_000))
PAID = [order for order in (json.loads(value) for _, value in ORDERS if value) if order["status"] == "paid"]
EXAMPLES = {
    "baskets": Example([*(basket(i, lines=i % 3) for i in range(30)), ("b1", None)], rows=(29, 30)),
    "clicks": Example(list(SAMPLES["clicks"].records(0, 0, 2_000)), rows=(1_982,), rejects=18),
    "events": Example([plain(i, event_id=f"e{i}", device="d", kind="t", reading=i / 2) for i in range(60)], rows=(60,)),
    "heartbeats": Example([*(plain(i, device=f"d{i}", battery=80) for i in range(40)), ("x", "{")], (40,), rejects=1),
    "invoices": Example(
        [
            (str(i), json.dumps({"invoice_id": f"i{i}", "customer": "c", "total": 9.9, "issued_at": AT}))
            for i in range(40)
        ],
        rows=(40,),
    ),
    "orders": Example(ORDERS, rows=(1_353,)),
    "page_views": Example([plain(i, page="/", visitor=f"v{i}") for i in range(40)], rows=(40,)),
    "reviews": Example(list(SAMPLES["reviews"].records(0, 0, 2_000)), rows=(1_974, 2_966), rejects=26),
    "signups": Example(
        [
            *(signup(i) for i in range(50)),
            *(signup(i, source="load-test", email=None) for i in range(50, 60)),
            *(signup(60, email="nobody"), signup(61, email=None), signup(62, country="Germany"), ("63", "{")),
        ],
        rows=(50,),
        rejects=4,
    ),
    "spend": Example([each for each in ORDERS if each[1]], rows=(len({order["customer"] for order in PAID}),)),
}
# A registry, a topic to send to, and a lake.
APART = {"payments": "test_formats.py", "sales": "test_windows.py", "sold": "../lake/test_example.py"}


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(PIPELINES))


def test_there_are_records_for_every_example():
    assert sorted({*EXAMPLES, *APART}) == NAMES
    for name, file in APART.items():
        assert f'"{name}"' in (Path(__file__).parent / file).read_text()


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short_and_without_a_fault(name):
    folder = load(name)
    engine = SparkEngine(folder, "", "")
    columns = [engine.columns(place) for place in range(len(folder.pipeline.targets))]
    assert len((folder.path / "__init__.py").read_text().splitlines()) < LINES
    assert faults(folder, columns, name) == []


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_does_what_it_says(database, kafka, topic, produce, tmp_path, name):
    loaded, example = load(name), EXAMPLES[name]
    folder = replace(loaded, pipeline=replace(loaded.pipeline, topic=topic(partitions=2)))
    pipeline, stores, conn = folder.pipeline, {"FILES": str(tmp_path)}, connect(database)
    apart = results_of(pipeline, database, stores) if isinstance(pipeline.guarantee, Delivered) else None
    apart.make(folder) if pipeline.store else migrate_target(conn, folder)
    at = Context(database, Broker(kafka), stores)
    engine = SparkEngine(folder, kafka, database)

    list(until_idle(at, engine, folder, Caller("test"), wait=1))  # a pipeline that begins at the latest has begun
    produce(pipeline.topic, example.records)
    *_, last = until_idle(at, engine, folder, Caller("test"), wait=1)

    assert isinstance(last.decision, Idle)
    assert at_end(database, kafka, name) == []
    assert [check for check in verify(conn, at.broker, folder, deep=True, results=apart) if not check.ok] == []
    with conn.cursor() as cur:
        if pipeline.store:
            rows = [ds.dataset(sorted(map(str, tmp_path.rglob("*.parquet")))).count_rows()]
        else:
            rows = [_count(cur, target.table) for target in pipeline.targets]
        assert (tuple(rows), _count(cur, "lockstep.reject")) == (example.rows, example.rejects)


def _count(cur, table: str) -> int:
    cur.execute(f"select count(*) from {table}")
    return cur.fetchone()[0]
