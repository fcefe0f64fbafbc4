"""Tests that a process is identified by pid and start time, and that no other is ever signalled."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from lockstep.core.errors import Refusal
from lockstep.dev import lock
from lockstep.dev.servers import ports, processes
from lockstep.dev.servers.processes import Process

FOR_EVER = ["/bin/sleep", "600"]
DEAF = ["/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"]


@pytest.fixture
def sleeper(tmp_path):
    started = processes.launch(FOR_EVER, log=tmp_path / "log")
    yield started
    if processes.alive(started):
        os.killpg(started.pid, signal.SIGKILL)


def silent(_line: str) -> None:
    return


def test_a_launched_process_lives_in_a_session_of_its_own(sleeper):
    assert processes.alive(sleeper)
    assert os.getsid(sleeper.pid) == sleeper.pid != os.getsid(0)


def test_a_pid_with_another_start_time_is_somebody_else(sleeper):
    predecessor = Process(sleeper.pid, "an earlier boot:1")

    assert not processes.alive(predecessor)


def test_stopping_a_process_whose_pid_was_given_away_leaves_the_new_owner_alone(sleeper):
    processes.stop_process(Process(sleeper.pid, "an earlier boot:1"), signal.SIGTERM, patience=1.0)

    assert processes.alive(sleeper)


def test_a_killed_child_is_dead_and_no_zombie(sleeper):
    os.kill(sleeper.pid, signal.SIGKILL)

    assert _becomes_true(lambda: processes.observe(sleeper.pid) is None)


def test_who_ignores_the_polite_signal_is_killed_with_all_its_children(tmp_path):
    deaf = processes.launch(DEAF, log=tmp_path / "log")
    time.sleep(0.3)

    processes.stop_process(deaf, signal.SIGTERM, patience=0.5)

    assert not processes.alive(deaf)
    assert _becomes_true(lambda: not _has_members(deaf.pid))


def test_the_pid_file_is_written_by_the_process_itself(tmp_path):
    started = processes.launch(FOR_EVER, log=tmp_path / "log", pid_file=tmp_path / "pid")

    assert _becomes_true(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"))
    assert int((tmp_path / "pid").read_text()) == started.pid
    # a program that replaces itself has no command line for a moment
    assert _becomes_true(lambda: "sleep 600" in processes.command_line(started.pid))
    processes.stop_process(started, signal.SIGTERM, patience=5.0)


def test_the_identity_is_that_of_earlier_versions(sleeper):
    """Leases and running servers outlive an upgrade: the start is that of /proc, in ticks since the boot."""
    ticks = Path(f"/proc/{sleeper.pid}/stat").read_text().rpartition(")")[2].split()[19]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()

    assert sleeper.started == f"{boot}:{ticks}"
    assert processes.observe(2**22 + 1) is None


def test_what_steers_postgres_is_not_handed_on(monkeypatch):
    monkeypatch.setenv("PGDATA", "/elsewhere")
    monkeypatch.setenv("LOCKSTEP_DSN", "postgresql://secret")

    assert not {"PGDATA", "LOCKSTEP_DSN"} & set(processes.clean_environment())


def test_a_wanted_port_is_kept_until_somebody_else_has_it(tmp_path):
    wanted = ports.choose(tmp_path)
    assert ports.choose(tmp_path, wanted=wanted) == wanted

    with _listening(wanted):
        assert ports.choose(tmp_path, wanted=wanted) != wanted
        with pytest.raises(Refusal, match=f"port {wanted} of LOCKSTEP_PG_PORT is taken"):
            ports.demand(wanted, "LOCKSTEP_PG_PORT")


def test_a_lock_waits_for_its_holder_and_dies_with_him(tmp_path):
    command = ["flock", str(tmp_path / "lock"), "sh", "-c", "echo held; exec sleep 600"]
    holder = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"

    with pytest.raises(Refusal, match="another command has held"), lock.held(tmp_path / "lock", silent, patience=0.3):
        pass
    os.killpg(holder.pid, signal.SIGKILL)
    holder.communicate()
    with lock.held(tmp_path / "lock", silent, patience=5.0):
        pass


def _listening(port: int):
    return socket.create_server(("127.0.0.1", port))


def _has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _becomes_true(question) -> bool:
    deadline = time.monotonic() + 60.0
    while not question() and time.monotonic() < deadline:
        time.sleep(0.05)
    return question()
