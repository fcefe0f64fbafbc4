"""Tests that each batch is in a table elsewhere once, whatever becomes of the catalog's answers and of the process."""

from __future__ import annotations

import json

import pytest

from elsewhere.conftest import more
from lockstep.core.errors import Unreachable
from support.scenes.here import Here

VALUES = "_stream, _offset, _ordinal, _batch, id, n"
# (faults of the next commits, commits that reached the table with its answers)
FEW = [
    (["drop-after"], [("drop-after", 200)]),
    (["500-before"], [("", 200)]),
    (["overtaken"], [("", 200), ("overtaken", 409)]),  # the second try wins, and the late one fails its requirement
]
REST = [
    (["drop-before"], [("", 200)]),
    (["500-after"], [("500-after", 200)]),
    (["silent"], [("", 200)]),
    # The late one wins, and the second try finds it.
    (["overtaking", "overtaken"], [("overtaking", 200), ("overtaken", 409)]),
]


def values(drill) -> list[tuple]:
    return sorted((row[4], row[5]) for row in drill.rows(VALUES))


@pytest.mark.parametrize("answers", [FEW, pytest.param(REST, marks=pytest.mark.long)], ids=["few", "rest"])
def test_each_batch_is_there_once_at_each_fault_of_an_answer(elsewhere, monkeypatch, answers):
    drill, expected = elsewhere(), [(f"r{i}", i) for i in range(150)]
    here = Here(drill)
    here.drain()
    assert values(drill) == sorted(expected)
    ((batch, _),) = drill.committed()
    summary = drill.table.current_snapshot().summary
    assert (summary["lockstep.pipeline"], summary["lockstep.batch"]) == ("drill", str(batch))
    assert drill.table.properties["lockstep.drill"] == f"{batch}:{summary['lockstep.token']}"
    monkeypatch.setenv("LOCKSTEP_CATALOG_POLARIS", json.dumps(drill.settle(patience=1.5)))
    here = Here(drill)
    drill.server.late = 2.5

    for number, (faults, outcomes) in enumerate(answers):
        drill.server.faults, drill.server.commits = list(faults), []
        more(drill, f"{number}-", 6)
        expected += [(f"{number}-{i}", i) for i in range(6)]
        here.drain()
        drill.server.waits_for(lambda: len(drill.server.commits) >= len(outcomes))  # noqa: B023 - at once
        assert (faults, drill.server.commits) == (faults, outcomes)
        assert values(drill) == sorted(expected), faults
    assert len(drill.committed()) == 1 + len(answers)
    checks = drill.verified()
    assert all(ok for ok, _ in checks.values()), checks


@pytest.mark.long
@pytest.mark.parametrize(
    "point",
    [
        "deliver.taken",
        "deliver.files_written",
        "deliver.prepared",
        "deliver.written",
        "deliver.done",
        "commit.ledger_written",
        "commit.done_unacknowledged",
    ],
)
def test_idempotent_wherever_it_dies_each_record_is_there_once(elsewhere, point):
    drill = elsewhere()

    drill.dies_at(point)
    drill.finishes()

    assert values(drill) == sorted((f"r{i}", i) for i in range(150))
    ((batch, _),) = drill.committed()
    assert {row[3] for row in drill.rows(VALUES)} == {batch}
    assert all(ok for ok, _ in drill.verified().values())


@pytest.mark.long
def test_a_commit_that_arrives_after_its_process_has_died_changes_nothing(elsewhere):
    drill = elsewhere()
    drill.server.faults = ["overtaken"]
    process = drill.fork()
    assert drill.server.struck.wait(60)
    process.kill()

    drill.finishes()
    drill.server.waits_for(lambda: len(drill.server.commits) == 2)

    assert drill.server.commits == [("", 200), ("overtaken", 409)]
    assert values(drill) == sorted((f"r{i}", i) for i in range(150))


@pytest.mark.long
def test_a_snapshot_that_a_stranger_has_expired_between_results_and_offsets_doubles_nothing(elsewhere):
    drill = elsewhere()
    drill.dies_at("deliver.done")
    drill.expire()
    assert "lockstep.batch" not in drill.table.current_snapshot().summary.additional_properties

    drill.finishes()

    assert values(drill) == sorted((f"r{i}", i) for i in range(150))
    assert all(ok for ok, _ in drill.verified().values())


@pytest.mark.long
def test_a_rollback_between_results_and_offsets_loses_nothing(elsewhere):
    drill = elsewhere()
    Here(drill).drain()
    before = drill.table.metadata.current_snapshot_id
    more(drill, "m", 9)
    drill.dies_at("deliver.done")
    drill.table.manage_snapshots().rollback_to_snapshot(before).commit()
    assert len(drill.rows()) == 150

    drill.finishes()

    assert values(drill) == sorted([*((f"r{i}", i) for i in range(150)), *((f"m{i}", i) for i in range(9))])


@pytest.mark.long
def test_a_stranger_that_moves_the_table_in_between_is_no_harm(elsewhere):
    drill = elsewhere()
    waiting = drill.fork("deliver.prepared=stop")
    assert waiting.stopped()
    drill.table.append(drill.table.scan().to_arrow())

    waiting.go_on()

    assert waiting.wait().told["committed"]
    assert drill.server.commits == [("", 409), ("", 200)]
    assert values(drill) == sorted((f"r{i}", i) for i in range(150))


@pytest.mark.long
def test_a_replay_brings_other_rows_in_place_of_the_old_ones(elsewhere):
    drill = elsewhere()
    here = Here(drill)
    here.drain()
    more(drill, "m", 9)
    here.drain()
    (first, _), (second, _) = drill.committed()
    here.code = lambda value: {"id": value["id"], "n": -value["n"]}

    here.work(here.ask("replay", str(first), str(first)))

    expected = [*((f"r{i}", -i) for i in range(150)), *((f"m{i}", i) for i in range(9))]
    assert values(drill) == sorted(expected)
    assert {row[3] for row in drill.rows(VALUES)} == {second, drill.committed()[-1][0]}
    assert all(ok for ok, _ in drill.verified(here).values())


@pytest.mark.long
def test_a_catalog_that_stays_away_leaves_a_batch_that_the_next_run_looks_for(elsewhere, monkeypatch):
    drill = elsewhere()
    monkeypatch.setenv("LOCKSTEP_CATALOG_POLARIS", json.dumps(drill.settle(patience=0.5)))
    drill.server.faults = ["drop-after"]
    drill.server.away_after_commit = True

    with pytest.raises(Unreachable, match="is not known, and the next run looks for it") as away:
        Here(drill).run()
    assert away.value.next_command == "lockstep run drill"
    assert drill.committed() == []
    drill.server.away_after_commit, drill.server.page = False, None
    drill.finishes()

    assert values(drill) == sorted((f"r{i}", i) for i in range(150))
