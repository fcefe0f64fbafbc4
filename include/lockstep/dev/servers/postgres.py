"""Runs the embedded Postgres: one cluster below a folder, on TCP alone, with full durability."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from lockstep.core.errors import Refusal
from lockstep.core.settings import ENVIRONMENT
from lockstep.dev.servers import cluster, ports, processes, programs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lockstep.dev.servers.processes import Process

_NOBODYS_PID = 2**31 - 1
_PORT_LINE, _STATUS_LINE = 3, 7


class Mode(Enum):
    """The signal that stops a server."""

    FAST = signal.SIGINT  # roll back, write out, end
    IMMEDIATE = signal.SIGQUIT  # end at once, recover at the next start
    KILL = signal.SIGKILL  # as a crash does. The backends then end by themselves.


@dataclass(frozen=True, slots=True)
class Server:
    """A running Postgres with its address."""

    process: Process
    port: int
    data: Path
    dsn: str = field(repr=False)
    superuser_dsn: str = field(repr=False)


def start(home: Path, port: int | None = None, *, environ: Mapping[str, str] = ENVIRONMENT) -> Server:
    """Returns the ready server below this folder. Starts it, on the port or a free one, if none runs."""
    folder, log = _folder(home), _folder(home) / "server.log"
    folder.mkdir(parents=True, exist_ok=True)
    if server := running(home):
        return _ready(home, server.process)
    data, owner = cluster.find_cluster(folder), cluster.account()
    binaries = programs.find_postgres(environ, data)
    binaries = programs.within_reach(binaries, cluster.site(folder, owner), owner)
    data = data or cluster.create_cluster(folder, binaries, owner, log)
    _clear_the_wreck(data)
    command = [str(binaries / "postgres"), "-D", str(data), "-p", str(port or ports.choose(home))]
    return _ready(home, processes.launch(command, log=log, account=owner))


def running(home: Path) -> Server | None:
    """Returns the server below this folder if its process lives. Any command may have started it."""
    data = cluster.find_cluster(_folder(home))
    if data is None or len(lines := _pid_file(data)) <= _PORT_LINE:
        return None
    process = processes.observe(int(lines[0]))
    # A crashed server's pid may be another process's by now, but no other names our data.
    if process is None or f"-D {data} " not in processes.command_line(process.pid):
        return None
    port, secret = int(lines[_PORT_LINE]), cluster.secret(_folder(home))
    return Server(
        process=process,
        port=port,
        data=data,
        dsn=f"postgresql://lockstep:{secret.lockstep}@127.0.0.1:{port}/lockstep",
        superuser_dsn=f"postgresql://postgres:{secret.superuser}@127.0.0.1:{port}/lockstep",
    )


def stop(server: Server, mode: Mode = Mode.FAST) -> None:
    """Ends exactly this run of the server and waits until it is gone."""
    processes.stop_process(server.process, mode.value, patience=30.0)


def remove_server(home: Path) -> None:
    """Ends the server below this folder, if one runs, and deletes its data, wherever they are."""
    if server := running(home):
        stop(server, Mode.IMMEDIATE)
    cluster.remove_cluster(_folder(home))


def _ready(home: Path, process: Process, patience: float = 120.0) -> Server:
    """Waits until the server's own pid file says that it accepts connections."""
    deadline = time.monotonic() + patience
    log = _folder(home) / "server.log"
    while time.monotonic() < deadline:
        server = running(home)
        if server and "ready" in _pid_file(server.data)[_STATUS_LINE : _STATUS_LINE + 1]:
            return server
        if not processes.alive(process):
            raise Refusal(f"Postgres did not start: {processes.last_log_line(log)}", next_command=f"less {log}")
        time.sleep(0.05)
    raise Refusal(f"Postgres was not ready within {patience:.0f} s.", next_command=f"less {log}")


def _clear_the_wreck(data: Path) -> None:
    """Prepares a start after a crash: ends orphaned backends, and removes the dead server's pid from its file."""
    deadline = time.monotonic() + 10.0
    while (orphans := list(processes.working_in(data, "postgres"))) and time.monotonic() < deadline:
        for pid in orphans:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGQUIT)
        time.sleep(0.1)
    file, lines = data / "postmaster.pid", _pid_file(data)
    if file.exists() and len(lines) <= _PORT_LINE:
        file.unlink()
    elif lines:
        # Its pid may be a stranger's by now, or a zombie's. The rest of it guards the shared memory and must stay.
        file.write_text("\n".join([str(_NOBODYS_PID), *lines[1:], ""]))


def _pid_file(data: Path) -> list[str]:
    try:
        return [line.strip() for line in (data / "postmaster.pid").read_text().splitlines()]
    except FileNotFoundError:
        return []


def _folder(home: Path) -> Path:
    return home.resolve() / "postgres"
