"""Tests Spark on other machines.

The DAG is the same, executors bring nothing but pyarrow and psycopg2, and one may die.
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


@pytest.fixture(scope="module")
def growing(servers, tmp_path_factory, cluster, bare_python):
    """An Airflow whose Spark begins without executors, and asks for them as it has tasks."""
    conf = tmp_path_factory.mktemp("growing-conf")
    (conf / "spark-defaults.conf").write_text(
        "spark.dynamicAllocation.enabled true\n"
        "spark.dynamicAllocation.shuffleTracking.enabled true\n"
        "spark.dynamicAllocation.executorIdleTimeout 3s\n"
        "spark.executor.cores 1\n"
    )
    more = {"PYSPARK_PYTHON": bare_python, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_CONF_DIR": str(conf)}
    home = tmp_path_factory.mktemp("growing-house")
    with an_airflow(servers, home, more=more, spark_master=cluster.address) as made:
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


def test_executors_that_come_and_go_as_there_is_work_lose_and_double_nothing(growing, cluster):
    drill = growing.pipeline("growing", slow=True)
    master = cluster.folder / "0.log"
    before = len(master.read_text())
    run_id = drill.trigger()
    drill.until_reading()
    wait_for(
        lambda: any("pyspark" in processes.command_line(pid) for n in (1, 2) for pid in cluster.family(n)), "it reads"
    )
    drill.mark.unlink()

    assert drill.over(run_id, seconds=300) == "success"
    assert drill.batches() == [("committed", 1)]
    assert drill.violations() == []
    assert drill.ask("select count(*), count(distinct id), sum(n)::int from public.growing") == [(150, 150, 11175)]
    said = master.read_text()[before:]
    assert "requested executors: Map(Profile: id = 0" in said or "requested to set total executors" in said, said
