from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from lockstep.adapters.processes import is_gone, this_owner
from lockstep.core.pipeline.definition import Append, Json, Pipeline
from lockstep.core.pipeline.folder import PipelineFolder

FOLDER = PipelineFolder(Pipeline("p", "t", Json("id string"), Append("public.p")), Path("p"), None, None, None)


def test_a_definitions_hash_changes_with_code_and_suite_and_with_nothing_else():
    same = replace(FOLDER, path=Path("elsewhere"))
    assert same.content_hash() == FOLDER.content_hash()
    assert replace(FOLDER, transform="def transform(r): return r").content_hash() != FOLDER.content_hash()
    assert replace(FOLDER, expectations={"name": "p", "expectations": []}).content_hash() != FOLDER.content_hash()


def test_an_owner_is_gone_when_its_process_ended_or_its_pid_is_somebody_elses():
    ended = subprocess.run(
        [sys.executable, "-c", "from lockstep.adapters.processes import this_owner; print(this_owner())"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    ).stdout.strip()
    host, pid, start, boot, namespace = this_owner().split("/")
    assert is_gone(ended)
    assert not is_gone(this_owner())
    assert is_gone(f"{host}/{pid}/{int(start) + 1}/{boot}/{namespace}")


def test_an_owner_that_older_code_has_written_is_still_read():
    host, pid, start, _, _ = this_owner().split("/")
    assert not is_gone(f"{host}/{pid}/{start}")
    assert is_gone(f"{host}/{pid}/{int(start) + 1}")


def test_of_another_container_with_the_same_host_name_nothing_is_known():
    host, pid, start, boot, namespace = this_owner().split("/")
    other = f"{host}/{pid}/{int(start) + 1}"
    assert not is_gone(f"{other}/{boot}/{int(namespace) + 1}")
    assert not is_gone(f"{other}/another-boot/{namespace}")


def test_of_another_hosts_owner_nothing_is_known():
    assert not is_gone("elsewhere/1/1")
    assert not is_gone("dag/run")
    assert not is_gone("")
