"""Every folder of include/pipelines is an example: short, without a fault, and run over records of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from checker import at_end
from lockstep.adapters.folders import load
from lockstep.adapters.kafka import Broker
from lockstep.adapters.postgres import connect
from lockstep.adapters.spark import SparkEngine
from lockstep.core.decisions import Caller, Idle
from lockstep.dev.samples import SAMPLES
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.check import faults
from lockstep.steps.run import until_idle
from lockstep.steps.surroundings import Surroundings
from lockstep.steps.verify import verify

if TYPE_CHECKING:
    from collections.abc import Sequence

PIPELINES = Path(__file__).parents[2] / "include" / "pipelines"
NAMES = sorted(folder.parent.name for folder in PIPELINES.glob("*/__init__.py"))
LINES = 40


@dataclass(frozen=True)
class Example:
    """Records for a pipeline's topic, and how many rows and rejects they become."""

    records: Sequence[tuple[bytes | str, bytes | str | None]]
    rows: int
    rejects: int = 0


def signup(number: int, **fields: str | None) -> tuple[str, str]:
    value = {"signup_id": f"s{number}", "email": f"p{number}@example.com", "country": "de", "source": "web"}
    return str(number), json.dumps(value | {"at": "2026-01-02T03:04:05Z"} | fields)


EXAMPLES = {
    "clicks": Example(list(SAMPLES["clicks"].records(0, 0, 2_000)), rows=1_982, rejects=18),
    "orders": Example(list(SAMPLES["orders"].records(0, 0, 2_000)), rows=1_353),
    "signups": Example(
        [
            *(signup(i) for i in range(50)),
            *(signup(i, source="load-test", email=None) for i in range(50, 60)),
            *(signup(60, email="nobody"), signup(61, email=None), signup(62, country="Germany"), ("63", "{")),
        ],
        rows=50,
        rejects=4,
    ),
}


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(PIPELINES))


def test_there_are_records_for_every_example():
    assert sorted(EXAMPLES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short_and_without_a_fault(name):
    folder = load(name)
    assert len((folder.path / "__init__.py").read_text().splitlines()) < LINES
    assert faults(folder, SparkEngine(folder, "", "").columns(), name) == []


@pytest.mark.parametrize("name", NAMES)
def test_an_example_does_what_it_says(database, kafka, topic, produce, name):
    loaded, example = load(name), EXAMPLES[name]
    folder = replace(loaded, pipeline=replace(loaded.pipeline, topic=topic(partitions=2)))
    conn = connect(database)
    migrate_target(conn, folder)
    produce(folder.pipeline.topic, example.records)

    at, engine = Surroundings(database, Broker(kafka)), SparkEngine(folder, kafka, database)
    *_, last = until_idle(at, engine, folder, Caller("test"), wait=1)

    assert isinstance(last.decision, Idle)
    assert at_end(database, kafka, name) == []
    assert [check for check in verify(conn, at.broker, folder, deep=True) if not check.ok] == []
    table = folder.pipeline.target.table
    with conn.cursor() as cur:
        cur.execute(f"select (select count(*) from {table}) as rows, (select count(*) from lockstep.reject) as rejects")
        assert tuple(cur.fetchone()) == (example.rows, example.rejects)
