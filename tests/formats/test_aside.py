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
    aside.keep_intake("7", ROWS, [ROWS])

    assert aside.kept_intakes("8") == []
    assert aside.kept_intakes("7") == [(ROWS, [ROWS])]
    assert aside.kept_intakes("7") == []


def test_what_a_failed_task_has_left_is_gone_after_a_day_and_nothing_else_is(folder):
    aside.keep_intake("7", ROWS, [])
    aside.keep_intake("8", ROWS, [])
    (folder / "lockstep-bench").mkdir()
    (folder / "others.arrow").touch()
    long_ago = time.time() - aside.DAY - 1
    for file in folder.iterdir():
        if not file.name.startswith("lockstep-8-"):
            os.utime(file, (long_ago, long_ago))

    aside.sweep()

    assert {file.name[:11] for file in folder.iterdir()} == {"lockstep-8-", "lockstep-be", "others.arro"}
    assert aside.kept_intakes("8") == [(ROWS, [])]


def test_pieces_come_again_in_their_order_however_often_they_are_asked_for():
    spool = aside.Spool()
    spool.put(io.BytesIO(b"one"))
    spool.put(io.BytesIO(b"two"))

    assert [[piece.read() for piece in spool.pieces()] for _ in range(2)] == [[b"one", b"two"]] * 2
