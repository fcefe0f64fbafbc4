"""Tests what a pipeline's module sees while Airflow parses its DAG and runs its tasks: none of Airflow's secrets."""

from __future__ import annotations

import pytest

from support.scenes.authors_code import CANARY, assert_sees_nothing, sights

pytestmark = pytest.mark.timeout(900)
TASKS = ("plan", "stage", "validate", "commit", "announce")


def test_no_task_shows_a_module_its_secrets(house):
    secrets = {"AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW__CORE__FERNET_KEY", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"}
    made, seen = house.pipeline("watched"), house.home / "seen.jsonl"
    source = house.place.pipelines / "watched" / "__init__.py"
    source.write_text(source.read_text() + CANARY.format(seen=str(seen)))

    assert made.over(made.trigger(), seconds=300) == "success"

    found = sights(seen)
    for sight in found:
        assert_sees_nothing(sight, seen, "a task, or the DAG file")
        assert not secrets & sight["environ"].keys()
        assert made.house.place.dsn not in str(sight)
    assert len({sight["parent"] for sight in found}) >= len(TASKS), "each task's process, and the DAG file's"
    assert made.batches() == [("committed", 1)]
