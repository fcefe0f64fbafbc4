"""Records that break an expectation are put aside in the batch's own transaction, with their bytes, and can come back."""

from __future__ import annotations

import json

import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.kafka import Broker
from lockstep.adapters.postgres import connect
from lockstep.core.decisions import Caller, Idle
from lockstep.core.person import Person
from lockstep.steps import requests
from lockstep.steps.run import until_idle
from lockstep.steps.verify import verify

ME = Person("me", "a test")
ID = "id string, n int, amount decimal(9,2)"
DDL = "id text, n int, amount numeric(9,2)"
START = "from pyspark.sql import functions as F\n"
SAME = "def transform(r):\n    return r.select('_stream', '_offset', 'id', 'n', 'amount')\n"
RECORDS = 1_000
GARBAGE, VIOLATIONS = range(0, RECORDS, 50), range(1, RECORDS, 100)  # 2 %, 1 %
QUARANTINE = {"on_violation": "'quarantine'"}


def expectation(kind: str, column: str | None = None, **more: object) -> dict:
    meta, severity = more.pop("meta", {}), more.pop("severity", "critical")
    kwargs = more | ({"column": column} if column else {})
    return {"type": f"expect_{kind}", "kwargs": kwargs, "meta": meta, "severity": severity}


POSITIVE = expectation("column_values_to_be_between", "amount", min_value=0)


def value(i: int) -> bytes:
    if i in GARBAGE:
        return b"\xff not json %d" % i
    amount = -i if i in VIOLATIONS else i
    return json.dumps({"id": f"r{i}", "n": i, "amount": f"{amount}.50"}).encode()


@pytest.fixture
def source(topic, produce):
    name = topic(partitions=3)
    produce(name, [(f"k{i}", value(i)) for i in range(RECORDS)])
    return name


def totals(report) -> tuple[int, ...]:
    return tuple(
        sum(getattr(r, name) for r in report.ranges) for name in ("delivered", "written", "filtered", "rejected")
    )


def failed(loaded) -> list:
    return [c for c in verify(connect(loaded.dsn), Broker(loaded.kafka), load(loaded.name), deep=True) if not c.ok]


def redrive(loaded):
    at, engine, folder = loaded.parts()
    asked = requests.redrive(at.conn, at.broker, folder, requests.Held(), ME)
    reports = list(until_idle(at, engine, folder, Caller("test"), 1, request_id=asked.request_id))
    assert isinstance(reports[-1].decision, Idle)


@pytest.mark.parametrize("transform", [None, SAME], ids=["as decoded", "through a transform"])
def test_garbage_and_violators_are_rejects_with_their_bytes_and_a_redrive_empties_them(
    pipeline, source, transform, tmp_path
):
    loaded = pipeline(source, ID, DDL, transform=transform, suite=[POSITIVE], **QUARANTINE)
    assert totals(loaded.run()) == (1_000, 970, 0, 30)
    rejects = loaded.ask("select reason, key, value, headers::text, timestamp is not null from lockstep.reject")
    held = {bytes(key): (reason, bytes(raw), headers, timed) for reason, key, raw, headers, timed in rejects}
    assert set(held) == {f"k{i}".encode() for i in (*GARBAGE, *VIOLATIONS)}
    for i in (*GARBAGE, *VIOLATIONS):
        assert held[f"k{i}".encode()][1:] == (value(i), None, True)
    for i in VIOLATIONS:
        assert held[f"k{i}".encode()][0] == f"expectation expect_column_values_to_be_between(amount): -{i}.50"
    assert loaded.ask("select sum(quarantined), sum(rejected) from lockstep.result") == [(10, 30)]
    assert loaded.ask("select sum(written), sum(rejected) from lockstep.manifest") == [(980, 20)]
    assert loaded.ask(f"select count(*), min(amount) from {loaded.name}") == [(970, 2.5)]
    ((verdict,),) = loaded.ask("select result from lockstep.verdict where success")
    assert (verdict["quarantined"], verdict["results"][0]["quarantined"]) == (10, 10)
    assert failed(loaded) == []
    assert loaded.violations() == []

    suite = {
        "name": loaded.name,
        "expectations": [expectation("column_values_to_be_between", "amount", min_value=-501.5)],
    }
    (tmp_path / "pipelines" / loaded.name / "expectations.json").write_text(json.dumps(suite))
    redrive(loaded)

    left = loaded.ask("select key from lockstep.reject where reason like 'expectation%'")
    assert {bytes(key) for (key,) in left} == {b"k601", b"k701", b"k801", b"k901"}
    assert loaded.ask(f"select count(*) from {loaded.name}") == [(976,)]
    assert failed(loaded) == []
    assert loaded.violations() == []
