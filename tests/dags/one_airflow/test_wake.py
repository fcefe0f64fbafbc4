"""Tests a wake-up end to end: Airflow's triggerer sees records, and the run that it wakes commits them once."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest

from lockstep.airflow.wake.schedule import LOOK_SECONDS
from lockstep.dev.servers import ports, processes
from lockstep.dev.servers.airflow_settings import airflow_environment
from support.servers.scheduled import OVER, PIPELINE, RECORDS, TARGET, wait_for

pytestmark = pytest.mark.timeout(900)
FILE = """
from lockstep.adapters.folders import load
from lockstep.airflow import dag_for

dag = dag_for(load("woken").pipeline, wake="kafka", schedule="0 0 1 1 *", tasks="one", is_paused_upon_creation=False)
"""


@pytest.fixture
def triggerer(house):
    """Starts the triggerer of the house. It ends with the house's Airflow at the latest."""
    port = house.airflow.port
    logs = ports.choose(house.home, taken=[port]), ports.choose(house.home, taken=[port])
    environ = processes.clean_environment() | airflow_environment(house.airflow.folder, house.place, port, logs)
    command = [str(Path(sys.executable).with_name("airflow")), "triggerer"]
    process = processes.launch(command, log=house.home / "triggerer.log", environ=environ)
    yield process
    processes.stop_process(process, signal.SIGTERM, 10.0)


@pytest.mark.long
@pytest.mark.usefixtures("triggerer")
def test_records_wake_a_run_once_and_no_run_comes_without_them(house):
    made = house.pipeline("woken", plain=(PIPELINE, TARGET))
    (house.place.dags / "woken.py").write_text(FILE)

    def over(number: int) -> list[dict] | None:
        runs = house.api.runs("woken")
        return runs if len(runs) >= number and all(run["state"] in OVER for run in runs) else None

    def awake() -> bool:
        return any(run["run_type"] == "asset_triggered" for run in over(1) or ())

    wait_for(awake, "the triggerer wakes a run", 180)
    assert (made.batches(), made.violations()) == ([("committed", 1)], [])
    before = {run["dag_run_id"] for run in wait_for(lambda: over(1), "no run is left")}

    made.send(7)
    wait_for(lambda: over(len(before) + 1), "new records wake another", 180)

    time.sleep(3 * LOOK_SECONDS)
    new = [run for run in house.api.runs("woken") if run["dag_run_id"] not in before]
    assert [(run["run_type"], run["state"]) for run in new] == [("asset_triggered", "success")]
    rows = made.ask("select id, n from public.woken")
    assert sorted(rows) == sorted([(f"r{n}", n) for n in range(RECORDS)] + [(f"r{n}", n) for n in range(7)])
    assert (made.batches(), made.violations()) == ([("committed", 1)] * 2, [])
