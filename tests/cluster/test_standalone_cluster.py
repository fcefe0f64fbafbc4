"""Tests Spark on other machines.

The DAG is the same, executors have the packages of requirements-executors.txt alone, and one may die.
"""

from __future__ import annotations

import sys

import pytest

from lockstep.dev.servers import processes
from support.servers.scheduled import an_airflow, wait_for

pytestmark = pytest.mark.long
# Tells from the executors which engine they have imported, and from where.
WITNESS = """
from pyspark.sql import functions as F

def transform(records):
    @F.udf("string")
    def with_place(id):
        import lockstep
        return f"{id} {lockstep.__file__}"
    return records.withColumn("id", with_place("id"))
"""


@pytest.fixture(scope="module")
def house(servers, tmp_path_factory, cluster, bare_python):
    more = {"PYSPARK_PYTHON": bare_python, "PYSPARK_DRIVER_PYTHON": sys.executable}
    with an_airflow(servers, tmp_path_factory.mktemp("cluster-house"), more=more, spark_master=cluster.address) as made:
        yield made


def test_the_engine_travels_to_executors_that_have_not_installed_it(house):
    drill = house.pipeline("travels")
    (house.place.pipelines / "travels" / "transform.py").write_text(WITNESS)

    run_id = drill.trigger()

    assert drill.over(run_id) == "success"
    assert drill.violations() == []
    (places,) = drill.ask("select array_agg(distinct split_part(id, ' ', 2)) from public.travels")[0]
    assert all(".zip/lockstep/" in place for place in places), places


def test_a_worker_killed_in_mid_read_loses_and_doubles_nothing(house, cluster):
    drill = house.pipeline("without_worker", slow=True)
    run_id = drill.trigger()
    drill.until_reading()
    wait_for(lambda: any("pyspark" in processes.command_line(pid) for pid in cluster.family(-1)), "it reads")
    cluster.kill_worker()
    drill.mark.unlink()
    cluster.add_worker()

    assert drill.over(run_id, seconds=300) == "success"
    assert [state for state, _ in drill.batches()] == ["committed"]
    assert drill.violations() == []
