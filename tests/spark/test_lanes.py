"""Tests replay, fill and preview through Spark: the read of a lane, the mixing of a transform, and Upsert."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import connect
from lockstep.core.changes.person import Person
from lockstep.core.planning.bounds import AtOffsets
from lockstep.core.planning.decisions import Caller, Idle
from lockstep.core.states import Lane
from lockstep.steps.batch.run import until_idle
from lockstep.steps.changes.skip import skip
from lockstep.steps.proof.verify import verify
from lockstep.steps.requests import requests
from lockstep.steps.requests.preview import preview

ME = Person("me", "a test")
CODE = (
    "from pyspark.sql import functions as F\ndef transform(r):\n    return r.withColumn('n', F.col('n') * {factor})\n"
)
DELETING = """
from lockstep import Delete

def decode(key, value, headers):
    what, _, rest = value.decode().partition(" ")
    shop, nr, *more = rest.split(":")
    if what == "odd":
        return Delete({"id": nr})
    if what == "drop":
        return Delete({"nr": int(nr), "shop": shop})
    return {"shop": shop, "nr": int(nr), "n": int(more[0])}
"""
TOTALS = "select count(*), sum(n) from {}"


@pytest.fixture
def source(topic, produce):
    name = topic(partitions=3)
    produce(name, records(0, 90))
    return name


def records(begin: int, n: int) -> list[tuple[str, str]]:
    return [(f"k{i}", json.dumps({"id": f"r{i}", "n": i})) for i in range(begin, begin + n)]


def ask(loaded, lane: str, begin: dict[int, int] | None = None, until: dict[int, int] | None = None, **more: Any):
    at, _, folder = loaded.parts()
    first, last = (None if b is None else AtOffsets(b) for b in (begin, until))
    wanted = requests.NewRequest(Lane(lane), first, last, **more)
    return requests.open_request(at.conn, at.broker, folder, wanted, ME, datetime.now(UTC))


def work(loaded, asked):
    at, engine, folder = loaded.parts()
    reports = list(until_idle(at, engine, folder, Caller("test"), 1, request_id=asked.request_id))
    assert isinstance(reports[-1].decision, Idle)
    return reports[:-1]


def rewrite(loaded, monkeypatch_home, factor: int) -> None:
    (monkeypatch_home / loaded.name / "transform.py").write_text(CODE.format(factor=factor))


def test_a_replay_takes_whole_batches_where_a_transform_may_mix_and_a_preview_says_what_it_will_do(
    pipeline, source, tmp_path
):
    loaded = pipeline(
        source, "id string, n int", "id text, n int", transform=CODE.format(factor=1), limits="Limits(records=40)"
    )
    loaded.run_until_idle()
    before = loaded.ask(TOTALS.format(loaded.name))
    rewrite(loaded, tmp_path / "pipelines", 3)

    at, engine, folder = loaded.parts()
    foreseen, _ = preview(
        at, engine, folder, ask(loaded, "replay", {0: 0}, {0: 1}, preview=True).request_id, Caller("test")
    )
    untouched = loaded.ask(TOTALS.format(loaded.name))
    asked = ask(loaded, "replay", {0: 0}, {0: 1})
    (report,) = work(loaded, asked)

    assert untouched == before
    assert {w.offsets.topic_partition.partition for w in asked.windows} == {0, 1, 2}  # the batch mixed all three
    changed = sum(r.written for r in report.ranges)
    assert foreseen.counts["changed"] + foreseen.counts["unchanged"] == changed
    assert foreseen.counts["added"] == foreseen.counts["removed"] == 0
    assert loaded.ask(f"select count(*) from {loaded.name} where n = 3 * substr(id, 2)::int and n > 0")[0][0] in {
        changed,
        changed - 1,  # the record whose n is 0
    }
    assert loaded.violations() == []


def test_what_was_skipped_is_filled_while_the_position_stays(pipeline, source, produce):
    loaded = pipeline(source, "id string, n int", "id text, n int")
    loaded.run_until_idle()
    produce(source, records(90, 30))
    at, _, folder = loaded.parts()
    skip(at.conn, at.broker, folder.pipeline, None, ME, datetime.now(UTC))
    produce(source, records(120, 30))
    loaded.run_until_idle()
    stood = loaded.ask("select partition, position from lockstep.stream order by 1")
    assert loaded.ask(f"select count(*) from {loaded.name}") == [(120,)]

    work(loaded, ask(loaded, "fill"))

    assert loaded.ask(TOTALS.format(loaded.name)) == [(150, sum(range(150)))]
    assert loaded.ask("select partition, position from lockstep.stream order by 1") == stood
    assert loaded.violations() == []


def test_a_decoders_own_deletions_are_those_of_the_log_in_batches_replays_and_a_second_reading(
    pipeline, topic, produce, tmp_path
):
    source = topic(partitions=2)
    chance, kept, rejected = random.Random(22), {}, []  # noqa: S311 - spread, not secrecy
    deletions: set[tuple[str, int]] = set()
    sent: dict[int, int] = {0: 0, 1: 0}

    def send(records: int) -> None:
        lines: dict[int, list[tuple[str, str]]] = {0: [], 1: []}
        for _ in range(records):
            shop, nr, n = chance.choice("ab"), chance.randrange(8), chance.randrange(100)
            partition = nr % 2
            line = chance.choice(
                [f"put {shop}:{nr}:{n}", f"put {shop}:{nr}:{n}", f"drop {shop}:{nr}", f"odd {shop}:{nr}"]
            )
            lines[partition].append((str(nr), line))
            if line.startswith("put"):
                kept[shop, nr] = n
            elif line.startswith("drop"):
                kept.pop((shop, nr), None)
                deletions.add((shop, nr))
            else:
                rejected.append((partition, sent[partition]))
            sent[partition] += 1
        for partition, its in lines.items():
            produce(source, its, partition=partition)

    def rows() -> dict[tuple[str, int], int]:
        return {(shop, nr): n for shop, nr, n in loaded.ask(f"select shop, nr, n from {loaded.name}")}

    loaded = pipeline(
        source, "", "shop text, nr int, n int, primary key (shop, nr)", target='Upsert("TABLE", key=("shop", "nr"))',
        form='Custom("shop string, nr int, n int")', max_reject_share="1.0",
    )  # fmt: skip
    (tmp_path / "pipelines" / loaded.name / "decode.py").write_text(DELETING)
    send(60)
    loaded.run_until_idle()
    assert rows() == kept
    first = dict(sent)
    send(60)
    loaded.run_until_idle()
    assert rows() == kept
    assert deletions - kept.keys()  # some stay deleted
    told = loaded.ask(
        'select s.partition, r."offset", r.reason from lockstep.reject r join lockstep.stream s using (stream_id)'
    )
    assert sorted((partition, offset) for partition, offset, _ in told) == sorted(rejected)
    assert {reason for _, _, reason in told} == {"Delete: its key names id, and the target's key is shop, nr"}

    work(loaded, ask(loaded, "replay", {0: 0, 1: 0}, first))  # older records take nothing back, and raise no row
    assert rows() == kept
    checks = verify(connect(loaded.dsn), Broker(loaded.kafka), load(loaded.name), deep=True)
    assert [check for check in checks if not check.ok] == []
    assert any(f"{len(kept)} rows compared with their records" in check.detail for check in checks)

    gone = min(deletions - kept.keys())
    loaded.ask(f"insert into {loaded.name} select '{gone[0]}', {gone[1]}, 1, 1, 0, 0, 1 returning 1")
    wrong = [
        check
        for check in verify(connect(loaded.dsn), Broker(loaded.kafka), load(loaded.name), deep=True)
        if not check.ok
    ]
    assert any("a tombstone, and a row is there" in check.detail for check in wrong), wrong


def test_a_keyed_replay_deletes_what_todays_code_no_longer_yields_and_raises_nothing_older(
    pipeline, topic, produce, tmp_path
):
    source = topic(partitions=1)
    produce(source, [(f"r{i % 10}", json.dumps({"id": f"r{i % 10}", "n": i})) for i in range(40)])
    every = "def transform(r):\n    return r\n"
    loaded = pipeline(
        source, "id string, n int", "id text primary key, n int", target="Upsert", key="id", transform=every
    )
    loaded.run_until_idle()
    assert loaded.ask(TOTALS.format(loaded.name)) == [(10, sum(range(30, 40)))]
    (tmp_path / "pipelines" / loaded.name / "transform.py").write_text(
        "def transform(r):\n    return r.where('n < 35')\n"
    )
    assert load(loaded.name).transform is not None

    work(loaded, ask(loaded, "replay", {0: 0}))
    once = loaded.ask(f"select id, n from {loaded.name} order by 1")
    work(loaded, ask(loaded, "replay", {0: 0}))

    assert once == [(f"r{i % 10}", i) for i in sorted(range(25, 35), key=lambda i: i % 10)]
    assert loaded.ask(f"select id, n from {loaded.name} order by 1") == once
