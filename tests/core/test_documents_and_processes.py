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


WITHOUT_PROC = """
import subprocess, sys
from support.fakes import no_proc
no_proc.hide_proc()
from lockstep.adapters import processes
from lockstep.dev.servers import processes as servers
code = "print('up', flush=True); input()"
child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()  # right behind exec, its arguments cannot be read yet
host, _, _, boot, namespace = processes.this_owner().split("/")
owner = f"{host}/{child.pid}/{processes.start_ticks(child.pid)}/{boot}/{namespace}"
seen = servers.observe(child.pid)
alive = [processes.is_gone(owner), processes.is_gone(processes.this_owner()), servers.alive(seen)]
named = "input()" in servers.command_line(child.pid)
child.kill()
child.wait()
print(boot, namespace, alive, named, [processes.is_gone(owner), servers.alive(seen)], len(no_proc.LOOKED) > 0)
"""


def test_without_proc_a_living_process_is_known_from_one_that_has_ended():
    said = subprocess.run(
        [sys.executable, "-c", WITHOUT_PROC],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert said.stdout.strip() == "unknown unknown [False, False, True] True [True, False] True", said.stderr


def test_a_process_that_does_not_show_itself_is_not_held_to_be_gone(monkeypatch):
    """As under hidepid, which hides the processes of other users, and on systems that older code could not ask."""
    host, _, start, boot, namespace = this_owner().split("/")
    ended = f"{host}/{2**22 + 1}/{start}/{boot}/{namespace}"
    assert is_gone(ended)
    assert not is_gone(f"{host}/{os.getpid()}/None/{boot}/{namespace}")

    def exists(_pid, _signal):
        raise PermissionError

    monkeypatch.setattr(os, "kill", exists)

    assert not is_gone(ended)


def test_of_another_container_with_the_same_host_name_nothing_is_known():
    host, pid, start, boot, namespace = this_owner().split("/")
    other = f"{host}/{pid}/{int(start) + 1}"
    assert not is_gone(f"{other}/{boot}/{int(namespace) + 1}")
    assert not is_gone(f"{other}/another-boot/{namespace}")


def test_of_another_hosts_owner_nothing_is_known():
    assert not is_gone("elsewhere/1/1")
    assert not is_gone("dag/run")
    assert not is_gone("")
