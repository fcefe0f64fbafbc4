"""Tests kill -9, twenty times, of the driver, the JVM and every worker at once, at moments spread over a run."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from support.oracles.checker import at_end, check

ROOT = Path(__file__).parent.parent.parent
KILLS = 20
SPARK, DRIVER = "spark", "process"
# A run, from its start or its JVM's to announce, takes about this long on two cores.
LONGEST = {SPARK: 22.0, DRIVER: 5.0}


@pytest.mark.long
@pytest.mark.timeout(2400)
@pytest.mark.parametrize(("name", "reader"), [("clicks", SPARK), ("orders", SPARK), ("orders", DRIVER)])
def test_no_kill_loses_or_doubles_a_record(database, kafka, name, reader):
    environ = os.environ | {"LOCKSTEP_DSN": database, "LOCKSTEP_KAFKA": kafka, "LOCKSTEP_ENGINE": reader}

    def lockstep(*words: str) -> subprocess.Popen[bytes]:
        command = [str(Path(sys.executable).parent / "lockstep"), *words]
        return subprocess.Popen(
            command, cwd=ROOT, env=environ, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )

    def done(*words: str) -> None:
        process = lockstep(*words)
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, (words, said)

    moments = random.Random(20261121)  # noqa: S311 - spread, not secrecy
    done("migrate", name)
    interrupted = 0
    for kill in range(KILLS // 2):
        done("dev", "produce", name, "--records", "15000")
        process = lockstep("run", name, "--until-idle")
        time.sleep((kill + moments.random()) * LONGEST[reader] / (KILLS // 2))
        interrupted += kill_tree(process)
        done("run", name, "--until-idle")
        assert check(database, kafka, name) == []
        assert at_end(database, kafka, name) == []
    done("reap")
    assert interrupted >= KILLS // 4
    assert check(database, kafka, name, rest=True) == []


def kill_tree(process: subprocess.Popen[bytes]) -> bool:
    """Sends SIGKILL to the process and all below it. Returns False when it had already ended."""
    if process.poll() is not None:
        return False
    try:
        root = psutil.Process(process.pid)
        tree = [*root.children(recursive=True), root]
    except psutil.NoSuchProcess:
        return False
    for member in tree:
        try:
            member.kill()
        except psutil.NoSuchProcess:
            continue
    process.wait()
    return True
