"""Tests rows that tasks write into files of the lake: never staged, read back by value, and each committed once."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake.conftest import InProcess
from lake.test_verify import led_to, with_other_values
from lockstep.adapters.iceberg import data_file
from lockstep.adapters.processes import this_owner
from lockstep.core.errors import BadData, Refusal
from lockstep.core.planning.decisions import Caller
from lockstep.engine.sinks import lake_writer
from lockstep.engine.sinks.stretches import rows_by_stream
from lockstep.faults import InjectedFault
from lockstep.steps.batch.run import until_idle
from lockstep.steps.lake.sweep import sweep_lake
from lockstep.steps.proof.verify import verify
from simulation.child import Child

POINTS = (
    "lake.prefix_made",
    "lake.file_open",
    "lake.file_closed",
    "task.committed",
    "lake.looked_back",
    "stage.done",
    "lake.registered",
    "lake.one_metadata_written",
    "lake.one_pointer_moved",
    "commit.done_unacknowledged",
)
QUICK = "lake.file_open"  # the others are run by the long tests


def failed(lake: Any) -> dict[str, str]:
    found = verify(lake.at.conn, lake.at.broker, lake.folder, deep=True)
    return {check.name: check.detail for check in found if not check.ok}


def there(lake: Any, path: str) -> Path:
    """Returns where a file of the table lies on this machine."""
    return Path(lake.lake, path.removeprefix(f"file://{lake.lake}/"))


def staged_rows_of(lake: Any) -> int:
    """Returns how many rows the staging tables of this database hold."""
    with closing(psycopg2.connect(lake.drill.dsn)) as conn, conn.cursor() as cur:
        cur.execute(
            "select format('lockstep_staging.%I', tablename) from pg_tables where schemaname = 'lockstep_staging'"
        )
        total = 0
        for (table,) in cur.fetchall():
            cur.execute(f"select count(*) from {table}")
            total += cur.fetchone()[0]
        return total


def test_rows_go_into_files_and_only_rejects_are_staged(of_tasks, monkeypatch):
    from lockstep.steps.batch import run as runs  # noqa: PLC0415 - looked at between two steps

    seen: list[int] = []
    validate = runs.validate
    monkeypatch.setattr(runs, "validate", lambda *a, **k: (seen.append(staged_rows_of(of_tasks)), validate(*a, **k))[1])
    of_tasks.drain()
    rows = of_tasks.rows()
    assert [set(column) for column in zip(*rows, strict=True)][4] == {f"r{i}" for i in range(60)}
    assert (len(rows), len({row[:2] for row in rows}), set(seen)) == (60, 60, {0})
    assert failed(of_tasks) == {}
    told = of_tasks.drill.ask(
        "select f.digests -> 'columns', r.rows_digest > 0, a.route ->> 'because' from lockstep.lake_file f"
        " join lockstep.result r using (batch_id, token) join lockstep.attempt a using (batch_id, token)"
    )
    assert {(*columns, positive) for columns, positive, _ in told} == {("id", "n", True)}
    assert all(
        "rows are written into files of lockstep.sales.drill as they are read" in because for *_, because in told
    )
    # A replay takes them out and brings them anew, whichever way they came.
    assert of_tasks.replay("0:0", "0:1")
    sweep_lake(of_tasks.at.conn)
    assert {path for path, _, _ in of_tasks.table().files() if not there(of_tasks, path).exists()} == set()
    assert [row[:3] + row[4:] for row in of_tasks.rows()] == [row[:3] + row[4:] for row in rows]
    assert failed(of_tasks) == {}


@pytest.mark.parametrize("point", [p if p == QUICK else pytest.param(p, marks=pytest.mark.long) for p in POINTS])
def test_after_a_fault_nothing_shows_or_all_of_it_and_no_file_of_the_dead_is_left(
    of_tasks, monkeypatch, tmp_path, point
):
    armed = tmp_path / "armed"
    armed.touch()
    with monkeypatch.context() as arm:
        arm.setenv("LOCKSTEP_FAULT", f"{point}=raise@{armed}")
        with pytest.raises(InjectedFault):
            of_tasks.run()
    assert len(of_tasks.rows()) == (40 if point == "commit.done_unacknowledged" else 0)
    of_tasks.drain()
    rows = of_tasks.rows()
    assert (len(rows), {row[4] for row in rows}) == (60, {f"r{i}" for i in range(60)})
    assert failed(of_tasks) == {}
    sweep_lake(of_tasks.at.conn)
    shown = {path.removeprefix(f"file://{of_tasks.lake}/") for path, _, _ in of_tasks.table().files()}
    assert {file for file in of_tasks.files() if "/data/lockstep/" in file} == shown
    assert sweep_lake(of_tasks.at.conn) == 0


@pytest.mark.long
@pytest.mark.timeout(600)
def test_kills_at_every_point_lose_and_double_nothing_and_leave_no_file(of_tasks, tmp_path):
    def work() -> dict:
        here = InProcess(of_tasks.drill, of_tasks.lake, of_tasks.produce)
        return {
            "batches": [r.batch_id for r in until_idle(here.at, here.engine, here.folder, Caller(this_owner()), 20)]
        }

    for number, point in enumerate(POINTS):
        of_tasks.produce(7)
        outcome = Child.fork(tmp_path / f"armed-{number}", f"{point}=kill", work).wait()
        assert (outcome.kind, outcome.told["reached"]) == ("killed", True), (point, outcome)
        rows = of_tasks.rows()
        assert len({row[:2] for row in rows}) == len(rows)
    outcome = Child.fork(tmp_path / "last", None, work).wait()
    assert outcome.kind == "ok", outcome
    rows = of_tasks.rows()
    sent = 60 + 7 * len(POINTS)
    assert (len(rows), {row[4] for row in rows}) == (sent, {f"r{i}" for i in range(sent)})
    assert failed(of_tasks) == {}
    sweep_lake(of_tasks.at.conn)
    shown = {path.removeprefix(f"file://{of_tasks.lake}/") for path, _, _ in of_tasks.table().files()}
    assert {file for file in of_tasks.files() if "/data/lockstep/" in file} == shown


def shortened(path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def without_a_row(path) -> None:
    rows = pq.read_table(path, partitioning=None)
    pq.write_table(rows.slice(1), path)


def with_another_value(path) -> None:
    rows = pq.read_table(path, partitioning=None)
    place, field = rows.schema.get_field_index("n"), rows.schema.field("n")
    pq.write_table(rows.set_column(place, field, pa.array([n + 1 for n in rows["n"].to_pylist()], field.type)), path)


@pytest.mark.long
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (shortened, "cannot be read back"),
        (without_a_row, r"does not hold the values of the \d+ rows that were written into it"),
        (with_another_value, r"does not hold the values of the \d+ rows that were written into it"),
        (lambda path: path.unlink(), "cannot be read back"),
    ],
    ids=["shortened", "without-a-row", "another-value", "missing"],
)
def test_a_task_s_file_that_the_store_gives_back_otherwise_is_refused(of_tasks, monkeypatch, spoil, reason):
    close = data_file.DataFile.close

    def spoilt(self: Any) -> None:
        close(self)
        spoil(self.place.local)

    with monkeypatch.context() as wrong:
        wrong.setattr(data_file.DataFile, "close", spoilt)
        with pytest.raises(BadData, match=reason):
            of_tasks.run()
    assert of_tasks.rows() == []
    of_tasks.drain()
    assert len(of_tasks.rows()) == 60


@pytest.mark.long
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (shortened, "cannot be read back"),
        (without_a_row, r"does not hold the \d+ rows that were written into it"),
        (lambda path: path.unlink(), "cannot be read back"),
    ],
    ids=["shortened", "without-a-row", "missing"],
)
def test_a_task_s_file_that_the_driver_sees_otherwise_is_refused(of_tasks, monkeypatch, spoil, reason):
    look = lake_writer.look_back

    def as_the_task_sees_it(address: str, *given: Any) -> Any:
        found = look(address, *given)
        spoil(there(of_tasks, address))
        return found

    with monkeypatch.context() as wrong:
        wrong.setattr(lake_writer, "look_back", as_the_task_sees_it)
        with pytest.raises(BadData, match=reason):
            of_tasks.run()
    assert of_tasks.rows() == []
    of_tasks.drain()
    assert len(of_tasks.rows()) == 60


@pytest.mark.long
@pytest.mark.parametrize("in_one_file", [True, False], ids=["in-one-file", "in-two"])
def test_a_row_that_a_task_writes_twice_is_refused(of_tasks, monkeypatch, in_one_file):
    take = lake_writer.TaskFiles.take

    def twice(self: Any, rows: pa.RecordBatch) -> None:
        """Writes as many rows as it is given. Those of the second half of a stream have the offsets of the first."""
        place, field = rows.schema.get_field_index("_offset"), rows.schema.field("_offset")
        for _, part in rows_by_stream([rows]):
            half = part.num_rows // 2
            first, second = part.slice(0, half), part.slice(half)
            take(self, first)
            if not in_one_file:
                self.close()
            offsets = pa.concat_arrays([first[place], second[place].slice(half)])
            take(self, second.set_column(place, field, offsets))

    with monkeypatch.context() as wrong:
        wrong.setattr(lake_writer.TaskFiles, "take", twice)
        with pytest.raises(BadData, match=r"stream \d+ offset \d+ has two rows with _ordinal 0"):
            of_tasks.run()
    assert of_tasks.rows() == []
    of_tasks.drain()
    assert len(of_tasks.rows()) == 60


@pytest.mark.long
def test_a_file_that_goes_between_stage_and_commit_is_named_and_nothing_is_committed(of_tasks, monkeypatch):
    from lockstep.steps.batch import run as runs  # noqa: PLC0415 - looked at between two steps

    validate = runs.validate

    def away(*given: Any, **more: Any) -> None:
        validate(*given, **more)
        for file in (of_tasks.lake / "sales" / "drill" / "data").rglob("*.parquet"):
            file.unlink()

    with monkeypatch.context() as wrong:
        wrong.setattr(runs, "validate", away)
        with pytest.raises(BadData, match="cannot be read back"):
            of_tasks.run()
    assert of_tasks.rows() == []
    of_tasks.drain()
    assert len(of_tasks.rows()) == 60


@pytest.mark.long
def test_a_value_that_a_stranger_changes_is_found_by_the_digest_of_what_the_task_wrote(of_tasks):
    from lockstep.steps.lake.copy_tables import AS_WRITTEN  # noqa: PLC0415 - the extra may be missing

    of_tasks.drain()
    led_to(of_tasks, with_other_values(of_tasks.table()))
    found = verify(of_tasks.at.conn, of_tasks.at.broker, of_tasks.folder, deep=False)
    assert {check.name for check in found if not check.ok} == {AS_WRITTEN}


@pytest.mark.long
def test_a_file_that_a_lost_try_has_left_beside_those_that_count_is_swept(of_tasks):
    of_tasks.drain()
    (path, *_), *_ = of_tasks.table().files()
    beside = there(of_tasks, path)
    loser = beside.with_name("9-0-lost.parquet")
    loser.write_bytes(beside.read_bytes())
    assert (sweep_lake(of_tasks.at.conn), loser.exists(), beside.exists()) == (1, False, True)
    assert failed(of_tasks) == {}


@pytest.mark.long
def test_a_machine_that_does_not_see_the_lake_says_so(of_tasks, monkeypatch):
    from lockstep.steps.batch import stage as stages  # noqa: PLC0415 - its folder is not made here

    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(stages, "make_folders", lambda _: None)
        with pytest.raises(Refusal, match="mount the lake's folder on each machine of Spark"):
            of_tasks.run()
    of_tasks.drain()
    assert len(of_tasks.rows()) == 60
