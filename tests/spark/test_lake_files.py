"""Tests that Spark's tasks write each record into files of the lake once, and stage rejects."""

from __future__ import annotations

from contextlib import closing
from importlib.util import find_spec

import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import connect
from lockstep.core.planning.decisions import Caller
from lockstep.engine.chosen import engine_of
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.run import until_idle
from lockstep.steps.context import Context
from lockstep.steps.proof.verify import verify
from support.engines import BY_SPARK

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(find_spec("pyiceberg") is None, reason="the extra lake is not installed"),
]
DEFINITION = """from lockstep import Append, Iceberg, Json, Pipeline
P = Pipeline(name="typed", topic="{topic}", target={target},
    format=Json("id string, n bigint, amount decimal(12,2), ratio double, ok boolean, day date, at timestamp"))
"""
ALONE, BOTH = 'Append(Iceberg("sales.typed"))', '(Append("public.typed"), Append(Iceberg("sales.typed")))'
LAKE_FIRST = '(Append(Iceberg("sales.typed")), Append("public.typed"))'
TABLE = """create table public.typed (id text, n bigint, amount numeric(12,2), ratio float8, ok boolean, day date,
    at timestamptz, _stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null,
    primary key (_stream, _offset, _ordinal));"""
GOOD, BAD, HARD = 3_000, 30, 20  # the last are left to Spark's decoder


def record(i: int, amount: str = '"1.50"') -> tuple[str, str]:
    value = (
        f'{{"id":"r{i} \\u00e9","n":{i},"amount":{amount},"ratio":{i}.5,"ok":{"true" if i % 2 else "null"},'
        f'"day":"2026-05-01","at":"2026-05-01T12:00:{i % 60:02d}.123456Z"}}'
    )
    return f"k{i}", value


@pytest.mark.parametrize("target", [ALONE, BOTH, LAKE_FIRST], ids=["alone", "both", "lake-first"])
def test_sparks_tasks_write_each_record_once_and_stage_rejects_alone(
    database, kafka, topic, produce, tmp_path, monkeypatch, target
):
    from lockstep.steps.lake.open_tables import make_tables, open_tables  # noqa: PLC0415 - the extra may be missing

    name, home = topic(partitions=3), tmp_path / "pipelines"
    (home / "typed").mkdir(parents=True)
    (home / "typed" / "__init__.py").write_text(DEFINITION.format(topic=name, target=target))
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(home))
    if target != ALONE:
        (home / "typed" / "target.sql").write_text(TABLE)
    folder = load("typed")
    sent = [record(i) for i in range(GOOD)] + [(f"b{i}", "{") for i in range(BAD)]
    sent += [record(GOOD + i, amount="1.50000") for i in range(HARD)]
    with closing(connect(database)) as conn:
        migrate_target(conn, folder)
        make_tables(conn, folder.pipeline, f"file://{tmp_path}/lake", [folder.pipeline.columns] * 2)
        produce(name, sent)
        at = Context(database, Broker(kafka), {})
        engine = engine_of(folder, at.broker, at.dsn, lambda: None, BY_SPARK)
        assert sum(report.went_on for report in until_idle(at, engine, folder, Caller("test"), 1)) == 1
        (table,) = open_tables(conn, folder.pipeline).values()
        names = ["_stream", "_offset", "n", "ok", "amount", "at", "id"]
        rows = [row for batch in table.read(names) for row in batch.to_pylist()]
        failed = [check for check in verify(conn, at.broker, folder, deep=True) if not check.ok]
        with conn.cursor() as cur:
            cur.execute(
                "select count(*) as files, count(f.digests) as told,"
                " (select count(*) from lockstep.reject) as rejects from lockstep.lake_file f"
            )
            files, of_tasks, rejects = cur.fetchone()
            if target != ALONE:
                cur.execute(f"select {', '.join(names)} from public.typed order by 1, 2")
                there = sorted((tuple(row.values()) for row in rows), key=lambda row: row[:2])
                assert [tuple(row) for row in cur.fetchall()] == there
        conn.rollback()
        at.close()
    assert failed == []
    assert sorted(row["n"] for row in rows) == [*range(GOOD + HARD)]
    assert all(row["ok"] is (True if row["n"] % 2 else None) for row in rows)
    assert (files == of_tasks > 0, rejects, len({(r["_stream"], r["_offset"]) for r in rows})) == (True, BAD, len(rows))
