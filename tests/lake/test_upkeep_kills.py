"""Tests that batches, upkeep and another writer may be killed beside one another: no reader sees tables that differ."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from itertools import cycle

import pytest

from lake.conftest import TABLES, InLake, InProcess
from lake.test_commit import POINTS
from lake.test_kills import Stranger, shown
from lake.test_upkeep import batches, failed, files_brought, kept, led_to, read
from lockstep.adapters.folders import load
from lockstep.adapters.processes import this_owner
from lockstep.core.errors import Refusal
from lockstep.core.planning.decisions import Caller
from lockstep.steps.batch.run import until_idle
from lockstep.steps.lake.sweep import sweep_lake
from lockstep.steps.upkeep.reap import reap
from simulation.child import AT_WORK, Child

UPKEEP_POINTS = [
    "lake.upkeep_begun",
    "lake.upkeep_merged",
    "lake.upkeep_swept",  # what the two before it have left
    "lake.upkeep_prepared",
    "lake.upkeep_moved",
    "lake.upkeep_swapped",
    "lake.expired_mid_delete",
]
BATCHES, MANY_BATCHES, PER_ROUND = 200, 300, 7


def free(lake) -> None:
    """Waits until the server has noticed that a killed upkeep is gone."""
    until = time.monotonic() + 30
    while lake.drill.advisory_locks():
        assert time.monotonic() < until
        time.sleep(0.05)


def unexplained(lake, names: tuple[str, ...]) -> set[str]:
    """Returns files of the tables that no snapshot leads to, beside metadata that readers were led to."""
    held = {path.removeprefix(f"file://{lake.lake}/") for name in names for path in led_to(lake.table(name))}
    told = lake.drill.ask("select before from lockstep.lake_pointer union select after from lockstep.lake_pointer")
    return lake.files() - held - {str(address).removeprefix(f"file://{lake.lake}/") for (address,) in told}


@pytest.mark.long
@pytest.mark.timeout(460)
def test_upkeep_that_is_killed_at_every_point_changes_no_row_and_leaves_no_file(of_tasks, tmp_path):
    lake = of_tasks
    lake.drain()

    def work() -> dict:
        here = InProcess(lake.drill, lake.lake, lake.produce)
        return {"left": [why for table in kept(here, datetime.now(UTC)) for why in table.left]}

    for number, point in enumerate(UPKEEP_POINTS):
        batches(lake, 5)
        rows = lake.rows()
        outcome = Child.fork(tmp_path / f"armed-{number}", f"{point}=kill", work).wait()
        assert (outcome.kind, outcome.told["reached"]) == ("killed", True), (point, outcome)
        assert lake.rows() == rows, point
        free(lake)
    assert [table.left for table in kept(lake, datetime.now(UTC))] == [[]]
    assert lake.rows() == rows
    assert len(lake.table().files()) == 1
    assert failed(lake) == []
    assert unexplained(lake, ("drill",)) == set()
    assert lake.drill.ask("select count(*) from lockstep.lake_gone where deleted_at is null") == [(0,)]


class Poller(threading.Thread):
    """Looks at the three tables again and again, each time in one snapshot of the database."""

    def __init__(self, lake) -> None:
        super().__init__(daemon=True)
        self.lake, self.over, self.looks, self.wrong = lake, threading.Event(), 0, []

    def run(self) -> None:
        while not self.over.wait(0.05):
            try:
                with AT_WORK:
                    rows, drill, lines = shown(self.lake)
            except Exception as error:  # noqa: BLE001 - a look that fails is what the test looks for
                self.wrong.append(repr(error))
            else:
                self.looks += 1
                if not rows == drill == lines or len(set(rows)) != len(rows):
                    self.wrong.append(f"{len(rows)} {len(drill)} {len(lines)}")


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_three_tables_never_differ_under_kills_of_batches_and_of_a_compactor_beside(lake, tmp_path):
    def work() -> dict:
        here = InLake(lake.drill, lake.lake, lake.produce)
        done = [report.batch_id for report in until_idle(here.at, here.engine, load("drill"), Caller(this_owner()), 20)]
        return {"batches": done}

    def compact() -> dict:
        here = InLake(lake.drill, lake.lake, lake.produce)
        return {"left": [why for t in kept(here, datetime.now(UTC) - timedelta(seconds=20)) for why in t.left]}

    poller, stranger = Poller(lake), Stranger(lake.drill.dsn)
    poller.start()
    stranger.start()
    reached: set[str] = set()
    number = 0
    for point, of_upkeep in zip(cycle(POINTS), cycle(UPKEEP_POINTS), strict=False):
        number += 1
        lake.produce(40 * PER_ROUND)
        both = [
            (of_upkeep, Child.fork(tmp_path / f"upkeep-{number}", f"{of_upkeep}=kill", compact)),
            (point, Child.fork(tmp_path / f"batch-{number}", f"{point}=kill", work)),
        ]
        reached |= {name for name, child in both if child.wait().told["reached"]}
        outcome = Child.fork(tmp_path / f"last-{number}", None, work).wait()
        assert outcome.kind == "ok", outcome
        free(lake)
        if lake.drill.ask("select count(distinct batch_id) from lockstep.commit")[0][0] >= BATCHES:
            break
    poller.over.set()
    stranger.over.set()
    poller.join(60)
    stranger.join(60)
    assert poller.wrong == []
    assert poller.looks > number
    assert set(POINTS) <= reached
    assert len(reached & set(UPKEEP_POINTS)) >= 4, reached  # by chance the others found nothing to do
    sent = lake._sent  # noqa: SLF001
    rows, drill, lines = shown(lake)
    assert rows == drill == lines
    assert sorted(row[4:] for row in lake.rows()) == sorted((f"r{i}", i) for i in range(sent))
    reap(lake.at.conn)
    sweep_lake(lake.at.conn)
    kept(lake)
    assert failed(lake) == []
    # The other writer sweeps nothing of its own. Ours are below the prefixes, or have the id of a preparation.
    told = "select commit_uuid::text from lockstep.{}"
    ids = [row[0] for table in ("lake_prepared", "lake_upkeep") for row in lake.drill.ask(told.format(table))]
    left = unexplained(lake, TABLES)
    assert {path for path in left if "/data/lockstep/" in path or any(each in path for each in ids)} == set()


@pytest.mark.long
@pytest.mark.timeout(460)
def test_three_hundred_batches_become_few_files_with_the_same_rows(of_tasks):
    lake = of_tasks
    lake.drain()
    batches(lake, MANY_BATCHES - 60, 2)
    outside = lake.table()
    batches(lake, 20, 2)
    inside, seen = lake.table(), read(lake.table())
    cutoff = datetime.now(UTC)
    batches(lake, 38, 2)
    rows, brought = lake.rows(), files_brought(lake)
    assert len({batch for batch, _, _ in brought}) == MANY_BATCHES
    (done,) = kept(lake, cutoff)
    assert (done.left, done.merged_files) == ([], len(brought))
    assert len(lake.table().files()) <= 5
    assert lake.rows() == rows
    assert failed(lake) == []
    assert files_brought(lake) == brought
    assert lake.drill.ask("select count(*) from lockstep.lake_commit") == [(MANY_BATCHES,)]
    assert read(inside) == seen
    with pytest.raises(Refusal, match="a file is missing"):
        read(outside)
    assert lake.drill.ask("select count(*) from lockstep.decision where kind = 'upkeep'") == [(2,)]
    assert lake.replay("0:0", "0:9")
    assert sorted(row[4:] for row in lake.rows()) == sorted(row[4:] for row in rows)
    assert failed(lake) == []
