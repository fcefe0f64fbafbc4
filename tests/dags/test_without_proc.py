"""Tests an Airflow whose processes have no /proc, as on macOS: its scheduler, its tasks, and the drivers that they start."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from support.fakes import no_proc
from support.servers.scheduled import an_airflow, kill, wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
WITNESS = """
import atexit
import os
def _say():
    if LOOKED:
        open({place!r} + f"/{{os.getpid()}}", "w").write("\\n".join(sys.argv))
atexit.register(_say)
"""


@pytest.fixture(scope="module")
def witnesses(tmp_path_factory):
    """Returns the folder in which each process leaves a file that has looked for /proc and not found it."""
    return tmp_path_factory.mktemp("looked")


@pytest.fixture(scope="module")
def house(servers, tmp_path_factory, witnesses):
    site = tmp_path_factory.mktemp("site")
    (site / "sitecustomize.py").write_text(Path(no_proc.__file__).read_text() + WITNESS.format(place=str(witnesses)))
    more = {"PYTHONPATH": os.pathsep.join([str(site), *filter(None, sys.path)])}
    with an_airflow(servers, tmp_path_factory.mktemp("no-proc"), more=more) as made:
        yield made


def test_a_run_without_proc_commits_once_though_its_task_is_killed_while_spark_reads(house, witnesses):
    drill = house.pipeline("without_proc", slow=True)
    run_id = drill.trigger()
    task, orphans = drill.until_reading(), house.jvms()
    kill(task)
    drill.mark.unlink()

    wait_for(lambda: not set(orphans) & set(house.jvms()), "the orphaned JVM ends", 60)
    assert drill.over(run_id, seconds=300) == "success"
    assert drill.batches() == [("committed", 2)]
    assert drill.ask("select count(*), count(distinct id), sum(n)::int from public.without_proc") == [(150, 150, 11175)]
    assert drill.violations() == []
    assert any("stage_batch.py" in each.read_text() for each in witnesses.iterdir())
