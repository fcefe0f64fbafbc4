"""Tests what a task submits to each kind of cluster, and what it makes of the end of the program that submits.

The program is a script in its place. The driver's pod on Kubernetes is made by Spark's own classes, without a cluster.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml  # type: ignore[import-untyped]
from airflow.providers.apache.spark.hooks import spark_submit

from lockstep.adapters.airflow.names import AirflowException
from lockstep.airflow import job
from lockstep.context.environment import OF_DRIVERS
from lockstep.installed import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Callable

TEMPLATE, GOLDEN = (
    CHECKOUT / "docs" / "kubernetes" / "driver-pod.yaml",
    Path(__file__).with_name("driver-pod.golden.yaml"),
)
CANARY = "canary-of-a-submission"
PROGRAM = """#!/bin/sh
{{ printf '%s\\n' "$0"; printf '%s\\n' "$@"; env; }} >> {said}
echo {line}
exit {code}
"""
MASTERS = {
    "spark": "spark://127.0.0.1:7077",
    "yarn": "yarn",
    "k8s": "k8s://https://127.0.0.1:6443",
}
BEGUN = {
    "yarn": "Submitted application application_1795695869949_0001",
    "k8s": "submission ID spark:lockstep-orders-1-driver",
    "spark": "State of driver driver-20260101000000-0001 is RUNNING",
}


@pytest.fixture
def submits(tmp_path, monkeypatch):
    """Returns a way to submit to a master by programs that say a line and end with a code. The call is what they got."""
    # The library of Kubernetes is not among the packages of the tests.
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    monkeypatch.setenv("LOCKSTEP_DSN", f"postgresql://u:{CANARY}@127.0.0.1:9/l")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    def made(master: str, line: str = "", code: int = 0) -> tuple[job.SparkJobOperator, Callable[[], None], Path]:
        said = tmp_path / "said"
        for name in ("spark-submit", "spark-class"):
            (tmp_path / name).write_text(PROGRAM.format(said=said, line=line, code=code))
            (tmp_path / name).chmod(0o755)
        spark = {
            "conn_type": "spark",
            "host": MASTERS[master],
            "extra": {"deploy-mode": "cluster", "namespace": "batch"},
        }
        monkeypatch.setenv("AIRFLOW_CONN_A_CLUSTER", json.dumps(spark))
        operator = job.SparkJobOperator(
            task_id="stage",
            conn_id="a_cluster",
            name="lockstep orders",
            application="/opt/jobs/stage_batch.py",
            application_args=["orders", "7", "--for", "orders/run/instance/1/stage/"],
            py_files="/opt/lockstep.zip",
            conf={"spark.driver.extraJavaOptions": "-Dlockstep.level=info"},
        )
        operator._hook = operator._get_hook()  # noqa: SLF001 - as `execute` does, whose caller is Airflow
        return operator, operator._submit_to_cluster, said  # noqa: SLF001

    return made


@pytest.mark.parametrize(
    ("master", "job_there", "setting"),
    [
        (
            "spark",
            ".jar\n/opt/jobs/stage_batch.py\n\norders\n7\n",  # any jar: a standalone master starts no driver without
            "spark.standalone.submit.waitAppCompletion=true",
        ),
        ("yarn", "\n/opt/jobs/stage_batch.py\norders\n7\n", "spark.yarn.maxAppAttempts=1"),
        (
            "k8s",
            "\nlocal:///opt/jobs/stage_batch.py\norders\n7\n",
            "spark.kubernetes.submission.waitAppCompletion=true",
        ),
    ],
    ids=list(MASTERS),
)
def test_each_cluster_is_given_the_job_as_it_takes_it_and_no_secret(submits, master, job_there, setting):
    _, submit, said = submits(master, BEGUN[master])
    with pytest.raises(AirflowException) if master == "k8s" else nullcontext():  # a pod that never ended
        submit()

    told = said.read_text()
    assert job_there in told
    assert f"\n{setting}\n" in told
    assert "lockstep.zip" not in told
    assert ("--jars" in told, f"/jars/spark-tags_2.13-{version('pyspark')}.jar\n" in told) == (False, master == "spark")
    assert CANARY not in told


def test_the_exit_code_decides_only_where_no_application_has_begun(submits):
    _, submit, _ = submits("yarn", BEGUN["yarn"], code=1)
    submit()  # the ledger's answer says what came of it

    _, submit, _ = submits("yarn", "Connection refused", code=1)
    with pytest.raises(AirflowException, match="Connection refused"):
        submit()


def test_an_application_of_yarn_is_ended_behind_its_attempt_and_by_a_program_without_secrets(submits, monkeypatch):
    operator, submit, said = submits("yarn", BEGUN["yarn"])
    submit()
    closed: list[bool] = []
    monkeypatch.setattr(job, "close_attempts", lambda: closed.append("ApplicationCLI" not in said.read_text()))

    operator.on_kill()

    assert closed == [True]
    assert "spark-class\norg.apache.hadoop.yarn.client.cli.ApplicationCLI\napplication\n-kill\n" in said.read_text()
    assert "\napplication_1795695869949_0001\n" in said.read_text()
    assert CANARY not in said.read_text()


def test_the_template_of_a_drivers_pod_has_each_variable_by_reference():
    (container,) = yaml.safe_load(TEMPLATE.read_text())["spec"]["containers"]

    assert {each["name"] for each in container["env"]} == OF_DRIVERS
    for each in container["env"]:
        assert each.keys() == {"name", "valueFrom"}
        assert each["valueFrom"]["secretKeyRef"]["key"] == each["name"]


@pytest.mark.long
def test_spark_makes_the_pod_that_is_written_down_of_what_a_task_submits(submits, tmp_path):
    """To see the change of a new version of Spark: LOCKSTEP_GOLDEN=1 writes it down."""
    operator, submit, said = submits("k8s")
    with pytest.raises(AirflowException):
        submit()
    told = said.read_text().partition("\nlocal:///opt/jobs/")[0].splitlines()[1:]
    (tmp_path / "spark-defaults.conf").write_text(
        f"spark.kubernetes.driver.podTemplateFile {TEMPLATE}\n"
        "spark.kubernetes.container.image registry.internal/lockstep:1\n"
        "spark.kubernetes.authenticate.driver.serviceAccountName spark\n"
    )
    told += ["local:///opt/jobs/stage_batch.py", *operator.application_args]
    environ = {name: value for name, value in os.environ.items() if name != "LOCKSTEP_DSN"}
    environ |= {"SPARK_CONF_DIR": str(tmp_path), "SPARK_USER": "airflow", "HADOOP_USER_NAME": "airflow"}
    program = [sys.executable, str(Path(__file__).with_name("driver_pod.py")), *told]
    done = subprocess.run(program, env=environ, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]

    pod, _, settings = done.stdout.partition("\n# ")
    pod = re.sub(r"lockstep-orders-[0-9a-f]{16}-", "lockstep-orders-ID-", pod)
    pod = re.sub(r"spark-[0-9a-f-]{36}", "spark-ID", pod) + "\n"
    if os.environ.get("LOCKSTEP_GOLDEN"):
        GOLDEN.write_text(pod)
    assert pod == GOLDEN.read_text()
    assert "spark.kubernetes.submission.waitAppCompletion=true" in settings
    assert CANARY not in done.stdout
