"""Tests that rows that one worker leaves for another wait as long as they may be needed, and no longer."""

from __future__ import annotations

import io
import os
import time

import pyarrow as pa
import pytest

from lockstep.engine.sinks import aside

ROWS = pa.RecordBatch.from_pydict({"n": [1, 2]})


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    return tmp_path


def test_what_is_put_can_be_taken_once():
    name = aside.spill([ROWS])

    assert aside.take_spilled(name) == [ROWS]
    with pytest.raises(FileNotFoundError):
        aside.take_spilled(name)


def test_what_a_failed_task_has_left_is_gone_after_a_day_and_nothing_else_is(folder):
    old, young = aside.spill([ROWS]), aside.spill([ROWS])
    aside.keep_intake("7", ROWS, [])
    (folder / "lockstep-bench").mkdir()
    (folder / "others.arrow").touch()
    long_ago = time.time() - aside.DAY - 1
    for file in folder.iterdir():
        if young not in file.name:
            os.utime(file, (long_ago, long_ago))

    aside.sweep()

    assert {file.name for file in folder.iterdir()} == {f"lockstep-put-{young}.arrow", "lockstep-bench", "others.arrow"}
    assert old != young


def test_pieces_come_again_in_their_order_however_often_they_are_asked_for():
    spool = aside.Spool()
    spool.put(io.BytesIO(b"one"))
    spool.put(io.BytesIO(b"two"))

    assert [[piece.read() for piece in spool.pieces()] for _ in range(2)] == [[b"one", b"two"]] * 2
