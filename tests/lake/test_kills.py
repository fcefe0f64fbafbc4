"""Tests that processes may be killed at every point of a commit into the lake, with another writer beside them."""

from __future__ import annotations

import json
import threading
import time
from contextlib import closing, suppress
from uuid import uuid4

import psycopg2
import pytest

from lake.conftest import TABLES, InLake
from lake.test_commit import POINTS
from lockstep.adapters.folders import load
from lockstep.adapters.iceberg.table import LakeTable
from lockstep.adapters.processes import this_owner
from lockstep.core.errors import Refusal
from lockstep.core.lake.files import prefix_of
from lockstep.core.planning.decisions import Caller
from lockstep.steps.batch.run import until_idle
from lockstep.steps.lake.sweep import sweep_lake
from lockstep.steps.proof.verify import verify
from simulation.child import AT_WORK, Child

ROUNDS = 3


class Stranger(threading.Thread):
    """Another writer: moves both tables' pointers again and again, by snapshots without rows."""

    def __init__(self, dsn: str) -> None:
        super().__init__(daemon=True)
        self.dsn, self.over, self.moves = dsn, threading.Event(), 0

    def run(self) -> None:
        pause = 0.3
        while not self.over.wait(pause):
            begun = time.monotonic()
            for name in TABLES:
                with (
                    AT_WORK,
                    suppress(Refusal),
                    closing(psycopg2.connect(self.dsn)) as conn,
                    conn,
                    conn.cursor() as cur,
                ):
                    cur.execute(
                        "select metadata_location from lockstep_lake.iceberg_tables where table_name = %s", (name,)
                    )
                    table = LakeTable(f"lockstep.sales.{name}", cur.fetchone()[0])
                    made = table.prepare(str(uuid4()), [], (), prefix_of(table.location, 0, 0), {})
                    cur.execute(
                        "update lockstep_lake.iceberg_tables set metadata_location = %s"
                        " where table_name = %s and metadata_location = %s",
                        (made.after, name, made.before),
                    )
                    self.moves += cur.rowcount
            pause = max(0.3, 6 * (time.monotonic() - begun))  # on a slow machine, too, a commit gets its turn


def shown(lake: InLake) -> list[list[tuple[int, int]]]:
    """Returns the rows of the three tables, as one snapshot of the database shows rows and pointers."""
    with closing(psycopg2.connect(lake.drill.dsn)) as conn, conn, conn.cursor() as cur:
        conn.set_session(isolation_level="REPEATABLE READ")
        cur.execute("select _stream, _offset from public.drill order by 1, 2")
        found = [[(s, o) for s, o in cur.fetchall()]]
        for name in TABLES:
            cur.execute("select metadata_location from lockstep_lake.iceberg_tables where table_name = %s", (name,))
            table = LakeTable(f"lockstep.sales.{name}", cur.fetchone()[0])
            rows = [row for batch in table.read(["_stream", "_offset"]) for row in batch.to_pylist()]
            found.append(sorted((row["_stream"], row["_offset"]) for row in rows))
    return found


@pytest.mark.long
@pytest.mark.timeout(900)
def test_kills_at_every_point_with_another_writer_beside_lose_and_double_nothing(lake, tmp_path):
    stranger = Stranger(lake.drill.dsn)
    stranger.start()

    def work() -> dict:
        here, batches = InLake(lake.drill, lake.lake, lake.produce), []
        for report in until_idle(here.at, here.engine, load("drill"), Caller(this_owner()), 20):
            batches += [report.batch_id] if report.went_on else []
        return {"batches": batches}

    reached = set()
    for number, point in enumerate(POINTS * ROUNDS):
        lake.produce(7)
        outcome = Child.fork(tmp_path / f"armed-{number}", f"{point}=kill", work).wait()
        assert (outcome.kind, outcome.told["reached"]) == ("killed", True), (point, outcome)
        reached.add(point)
        rows, drill, lines = shown(lake)
        assert rows == drill == lines
        assert len(set(rows)) == len(rows)
    outcome = Child.fork(tmp_path / "last", None, work).wait()
    assert outcome.kind == "ok", outcome
    stranger.over.set()
    stranger.join(60)
    assert reached == set(POINTS)
    assert stranger.moves > 0
    sent = 60 + 7 * len(POINTS) * ROUNDS
    rows, drill, lines = shown(lake)
    assert rows == drill == lines
    assert (len(rows), {row[4] for row in lake.rows()}) == (sent, {f"r{i}" for i in range(sent)})
    assert [c.detail for c in verify(lake.at.conn, lake.at.broker, lake.folder, deep=True) if not c.ok] == []
    sweep_lake(lake.at.conn)
    paths = [path for name in TABLES for path, _, _ in lake.table(name).files()]
    assert {f for f in lake.files() if "/data/lockstep/" in f} == {
        p.removeprefix(f"file://{lake.lake}/") for p in paths
    }
    with closing(psycopg2.connect(lake.drill.dsn)) as conn, conn.cursor() as cur:
        cur.execute("select json_agg(commit_uuid) from lockstep.lake_prepared where swept_at is not null")
        refused = cur.fetchone()[0] or []
    assert not [f for f in lake.files() for each in refused if each in f], json.dumps(refused)
