"""Tests an Airflow that is not ours.

It has Lockstep as a wheel, a login with a run's roles only, and connections kept by Airflow itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import psycopg2
import pytest
from confluent_kafka import Producer

from lockstep.installed import CHECKOUT
from support.oracles.checker import at_end, check

ROLES = "lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader"
RUN = """
import sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
assert not bag.import_errors, bag.import_errors
run = bag.dags["payments"].test()
import lockstep
print("RESULT", run.state, lockstep.__file__)
"""


class Project:
    """An empty folder with a Python, an Airflow home and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.python = folder, str(folder / "venv" / "bin" / "python")
        venv.create(folder / "venv", with_pip=True)
        # Its packages are those of the tests, but for Lockstep: a .pth behind a .pth is not read.
        site = next((folder / "venv" / "lib").glob("python*")) / "site-packages"
        (site / "others.pth").write_text(sysconfig.get_path("purelib"))
        self.environ = {
            name: value for name, value in os.environ.items() if not name.startswith(("LOCKSTEP_", "AIRFLOW_"))
        }
        self.environ |= {
            "AIRFLOW_HOME": str(folder / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
            "PYTHONPATH": str(folder / "include"),
            "PATH": os.pathsep.join(
                [str(folder / "venv" / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
            ),
        }

    def run(self, *command: str, **environ: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environ | environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout


@pytest.fixture
def project(tmp_path):
    made = Project(tmp_path)
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "clone", "-q", str(CHECKOUT), str(checkout)], check=True)
    made.run(made.python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(checkout))
    (wheel,) = tmp_path.glob("lockstep_kafka-*.whl")
    made.run(made.python, "-m", "pip", "install", "--quiet", "--no-deps", str(wheel))
    return made


@pytest.mark.long
def test_a_wheel_in_an_empty_airflow_runs_a_pipeline_with_a_login_that_owns_nothing(project, database, kafka, topic):
    name = topic(partitions=2)
    lockstep = str(project.folder / "venv" / "bin" / "lockstep")
    (project.folder / "include" / "pipelines").mkdir(parents=True)
    (project.folder / "include" / "pipelines" / "__init__.py").touch()
    (project.folder / "dags").mkdir()

    # As docs/airflow.md says: the pipeline, its table as the owner, a login for the runs, three connections.
    project.run(lockstep, "new", "payments", "--topic", name, "--columns", "id string, n int")
    project.run(lockstep, "migrate", "payments", LOCKSTEP_DSN=database)
    login = f"airflow_{os.getpid()}"
    admin = psycopg2.connect(database)
    with admin, admin.cursor() as cur:
        cur.execute(f"create role {login} login password 'of-its-own'")
        cur.execute(f"grant {ROLES} to {login}")
    where = admin.info
    add = (project.python, "-m", "airflow", "connections", "add")
    project.run(project.python, "-m", "airflow", "db", "migrate")
    project.run(
        *(
            *add,
            "postgres_default",
            "--conn-type",
            "postgres",
            "--conn-host",
            where.host,
            "--conn-port",
            str(where.port),
        ),
        *("--conn-login", login, "--conn-password", "of-its-own", "--conn-schema", where.dbname),
    )
    project.run(*add, "kafka_default", "--conn-type", "kafka", "--conn-extra", json.dumps({"bootstrap.servers": kafka}))
    project.run(*add, "spark_default", "--conn-type", "spark", "--conn-host", "local[2]")
    producer = Producer({"bootstrap.servers": kafka})
    for i in range(150):
        producer.produce(name, json.dumps({"id": f"p{i}", "n": i}))
    producer.flush(20)

    said = project.run(project.python, "-c", RUN, str(project.folder / "dags"))

    assert "RESULT success" in said
    assert str(project.folder / "venv") in said.rpartition("RESULT")[2], "the wheel's code ran, not the checkout's"
    assert check(database, kafka, "payments", table="public.payments") + at_end(database, kafka, "payments") == []
    with admin, admin.cursor() as cur:
        cur.execute("select count(*) from public.payments")
        assert cur.fetchone() == (150,)
        cur.execute(f"drop role {login}")  # it owns nothing
    admin.close()
