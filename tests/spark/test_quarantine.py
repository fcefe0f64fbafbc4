"""Tests that records that break an expectation are put aside in the batch's transaction, with their bytes.

They can come back.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import connect
from lockstep.core.changes.person import Person
from lockstep.core.planning.decisions import Caller, Idle
from lockstep.steps.batch.run import until_idle
from lockstep.steps.proof.verify import verify
from lockstep.steps.requests.redrive import Held, redrive

ME = Person("me", "a test")
ID = "id string, n int, amount decimal(9,2)"
DDL = "id text, n int, amount numeric(9,2)"
START = "from pyspark.sql import functions as F\n"
SAME = "def transform(r):\n    return r.select('_stream', '_offset', 'id', 'n', 'amount')\n"
RECORDS = 1_000
GARBAGE, VIOLATIONS = range(0, RECORDS, 50), range(1, RECORDS, 100)  # 2 %, 1 %
HEADERS = '[{"key":"trace","value":"AP8="}]'
QUARANTINE: dict[str, Any] = {"on_violation": "'quarantine'"}


def expectation(kind: str, column: str | None = None, **more: Any) -> dict:
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
    producer = produce(name, [(f"k{i}", value(i)) for i in range(RECORDS) if i != 1])
    producer.produce(name, value(1), "k1", headers=[("trace", b"\x00\xff")])
    producer.flush(20)
    return name


def totals(report) -> tuple[int, ...]:
    return tuple(
        sum(getattr(r, name) for r in report.ranges) for name in ("delivered", "written", "filtered", "rejected")
    )


def failed(loaded) -> list:
    return [c for c in verify(connect(loaded.dsn), Broker(loaded.kafka), load(loaded.name), deep=True) if not c.ok]


def driven_again(loaded):
    at, engine, folder = loaded.parts()
    asked = redrive(at.conn, at.broker, folder, Held(), ME).asked
    reports = list(until_idle(at, engine, folder, Caller("test"), 1, request_id=asked.request_id))
    assert isinstance(reports[-1].decision, Idle)


@pytest.mark.parametrize(
    "transform", [pytest.param(None, marks=pytest.mark.long), SAME], ids=["as decoded", "through a transform"]
)
def test_garbage_and_violators_are_rejects_with_their_bytes_and_a_redrive_empties_them(
    pipeline, source, transform, tmp_path
):
    loaded = pipeline(source, ID, DDL, transform=transform, suite=[POSITIVE], **QUARANTINE)
    assert totals(loaded.run()) == (1_000, 970, 0, 30)
    rejects = loaded.ask("select reason, key, value, headers::text, timestamp is not null from lockstep.reject")
    held = {bytes(key): (reason, bytes(raw), headers, timed) for reason, key, raw, headers, timed in rejects}
    assert set(held) == {f"k{i}".encode() for i in (*GARBAGE, *VIOLATIONS)}
    for i in (*GARBAGE, *VIOLATIONS):
        assert held[f"k{i}".encode()][1:] == (value(i), HEADERS if i == 1 else None, True)
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
    driven_again(loaded)

    left = loaded.ask("select key from lockstep.reject where reason like 'expectation%'")
    assert {bytes(key) for (key,) in left} == {b"k601", b"k701", b"k801", b"k901"}
    assert loaded.ask(f"select count(*) from {loaded.name}") == [(976,)]
    assert failed(loaded) == []
    assert loaded.violations() == []


def test_the_next_older_record_of_a_key_wins_and_deletions_are_not_looked_at(pipeline, topic, produce):
    name = topic(partitions=1)
    rows = [("a", 1), ("b", 1), ("a", -5), ("b", None), ("c", -1), ("d", 4)]
    produce(name, [(k, n if n is None else json.dumps({"id": k, "n": n, "amount": n})) for k, n in rows])
    suite = [expectation("column_values_to_not_be_null", "amount"), POSITIVE]
    ddl = DDL.replace("id text", "id text primary key")
    loaded = pipeline(name, ID, ddl, target="Upsert", key="id", suite=suite, **QUARANTINE)
    assert totals(loaded.run()) == (6, 4, 0, 2)
    assert loaded.ask(f"select id, n from {loaded.name} order by 1") == [("a", 1), ("d", 4)]
    assert loaded.ask('select "offset", convert_from(key, $$UTF8$$) from lockstep.reject order by 1') == [
        (2, "a"),
        (4, "c"),
    ]
    assert failed(loaded) == []
    assert loaded.violations("id") == []


def test_a_record_of_several_rows_in_several_tasks_is_put_aside_whole(pipeline, source):
    spread = START + (
        "def transform(r):\n"
        "    rows = r.select('_stream', '_offset', 'id', F.posexplode(F.array('n', -F.col('n'))).alias('_ordinal', 'n'))\n"
        "    return rows.repartition(4, '_ordinal').where('n % 2 = 0')\n"
    )
    tens = expectation("column_values_to_be_between", "n", min_value=-900)
    loaded = pipeline(source, ID, "id text, n int", transform=spread, suite=[tens], **QUARANTINE)
    violators = [i for i in range(901, RECORDS) if i % 2 == 0 and i not in GARBAGE]
    even = [i for i in range(RECORDS) if i % 2 == 0 and i not in GARBAGE]
    assert totals(loaded.run()) == (1_000, len(even) - len(violators), 500, 20 + len(violators))
    assert loaded.ask(f"select count(*), max(abs(n)) from {loaded.name}") == [(2 * (len(even) - len(violators)), 898)]
    assert loaded.ask("select count(*), count(value) from lockstep.reject where reason like 'expectation%'") == [
        (len(violators), len(violators))
    ]
    assert failed(loaded) == []
