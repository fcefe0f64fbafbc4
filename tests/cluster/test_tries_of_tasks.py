"""Tests tasks on executors that Spark tries again, or twice at once: no record doubles, and none is lost."""

from __future__ import annotations

import sys

import pytest

from cluster.conftest import Cluster
from cluster.tries import HOSTS, TRIES, tried_twice

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def on_two_hosts(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("two-hosts"), hosts=HOSTS)
    yield made
    made.stop()


@pytest.mark.parametrize(("unit", "fault"), TRIES)
def test_a_task_that_is_tried_again_or_twice_at_once_doubles_nothing(
    drill, on_two_hosts, bare_python, tmp_path, unit, fault
):
    python = {"spark.pyspark.python": bare_python, "spark.pyspark.driver.python": sys.executable}
    tried_twice(drill, tmp_path / "events", unit, fault, on_two_hosts.address, **python)
