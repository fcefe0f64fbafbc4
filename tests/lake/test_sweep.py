"""Tests that reap leaves no file of a dead attempt in the lake, and every other file."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from lockstep.faults import InjectedFault
from lockstep.steps.lake.sweep import sweep_lake

POINTS = [
    "lake.one_pointer_moved",
    *(
        pytest.param(point, marks=pytest.mark.long)
        for point in ("lake.file_closed", "lake.registered", "lake.one_metadata_written")
    ),
]


@pytest.mark.parametrize("point", POINTS)
def test_reap_deletes_what_a_dead_attempt_has_left_and_nothing_else(lake, monkeypatch, tmp_path, point):
    lake.run()
    before, armed = lake.files(), tmp_path / "armed"
    armed.touch()
    with monkeypatch.context() as arm:
        arm.setenv("LOCKSTEP_FAULT", f"{point}=raise@{armed}")
        with pytest.raises(InjectedFault):
            lake.run()
    strangers = Path(lake.lake / "sales" / "drill" / "data" / "of-another.parquet")
    strangers.write_bytes(b"a file that no ledger knows")
    left = lake.files() - before
    assert len(left) > 1
    lake.drain()  # the attempt is over, and another one commits its batch
    armed.touch()
    with monkeypatch.context() as arm:
        arm.setenv("LOCKSTEP_FAULT", f"lake.sweep_mid=raise@{armed}")
        with pytest.raises(InjectedFault):
            sweep_lake(lake.at.conn)  # the files are gone, and the ledger does not say so yet
    sweep_lake(lake.at.conn)
    assert lake.files() & left == {str(strangers.relative_to(lake.lake))}
    assert before <= lake.files()
    assert lake.rows("drill") == lake.rows("lines") == lake.in_database()
    assert len(lake.rows()) == 60
    shown = {
        path.removeprefix(f"file://{lake.lake}/")
        for name in ("drill", "lines")
        for path, _, _ in lake.table(name).files()
    }
    on_disk = {file for file in lake.files() if "/data/lockstep/" in file}
    assert on_disk == shown
    assert sweep_lake(lake.at.conn) == 0


@pytest.mark.long
def test_an_attempt_that_may_still_commit_keeps_its_files(lake, monkeypatch, tmp_path):
    armed = tmp_path / "armed"
    armed.touch()
    seen = []
    from lockstep.steps.lake import commit_to_lake  # noqa: PLC0415 - the extra may be missing

    prepare = commit_to_lake._prepare  # noqa: SLF001

    def swept(*given):  # noqa: ANN002
        made = prepare(*given)
        seen.append(sweep_lake(lake.at.conn))
        return made

    monkeypatch.setattr(commit_to_lake, "_prepare", swept)
    lake.drain()
    assert set(seen) == {0}
    assert len(lake.rows()) == 60


BACKDATED = """alter table lockstep.attempt disable trigger user; alter table lockstep.lake_prepared disable trigger user;
    update lockstep.attempt set closed_at = closed_at - interval '2 days' where closed_at is not null and state <> 'committed';
    update lockstep.lake_prefix set swept_at = swept_at - interval '2 days' where swept_at is not null;
    update lockstep.lake_prepared set swept_at = swept_at - interval '2 days' where swept_at is not null;
    alter table lockstep.attempt enable trigger user; alter table lockstep.lake_prepared enable trigger user;"""


@pytest.mark.long
def test_what_a_process_that_was_taken_for_dead_writes_later_is_swept_a_day_later(lake, monkeypatch, tmp_path):
    armed = tmp_path / "armed"
    armed.touch()
    with monkeypatch.context() as arm:
        arm.setenv("LOCKSTEP_FAULT", f"lake.all_metadata_written=raise@{armed}")
        with pytest.raises(InjectedFault):
            lake.run()
    prefixes = lake.drill.ask("select location from lockstep.lake_prefix")
    uuids = lake.drill.ask("select commit_uuid::text from lockstep.lake_prepared")
    lake.drain()
    assert sweep_lake(lake.at.conn) > 0
    late = [lake.lake / "sales" / "drill" / "metadata" / f"{uuids[0][0]}-m0.avro"]
    folder = Path(prefixes[0][0].removeprefix("file://"))
    folder.mkdir()
    late.append(folder / "late.parquet")
    for file in late:
        file.write_bytes(b"late")
    assert sweep_lake(lake.at.conn) == 0  # not before a day has passed
    with closing(psycopg2.connect(lake.drill.dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute("set role lockstep_owner; " + BACKDATED)
    rows = lake.rows()
    assert sweep_lake(lake.at.conn) == len(late)
    assert not [file for file in late if file.exists()]
    assert (lake.rows(), sweep_lake(lake.at.conn)) == (rows, 0)
