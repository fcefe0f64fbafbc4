"""A Spark task that dies or fails behind its COPY: its rows never count, its records are there once."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    "fault", ["task.read_mid=raise", "task.copy_end=kill", "task.committed=raise", "task.committed=kill"]
)
def test_a_task_that_fails_is_tried_again_and_only_the_winner_counts(drill, monkeypatch, fault):
    monkeypatch.setenv("SPARK_MASTER", "local[2,3]")

    answer = drill.run("--spark", fault=fault)

    assert answer["committed"], answer
    assert not list(drill.home.glob("armed-*")), "the fault never happened"
    assert drill.ask("select count(*) from public.drill") == [(150,)]
    assert drill.violations() == []
