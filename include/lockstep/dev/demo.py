"""The demo: the commands a newcomer would type, typed for him, on sample data; done again, it finds all done."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Sequence

PIPELINES = ("orders", "clicks")
RECORDS = 50_000
INTERRUPTED = 130
NEXT = """
The stack is still up. What to try next:

  {door} dev produce clicks --records 200000
  {door} run clicks --until-idle
  {door} status clicks
  {door} blame orders --key o-000003001
  eval "$({door} dev env)" && psql "$LOCKSTEP_DSN"    # public.orders, public.clicks, lockstep.*
  make down                                                      # the data stay
"""


class CommandFailed(Exception):  # noqa: N818 - the command has said why already
    """A command of the demo exited with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Running(NamedTuple):
    """A command at work and the files its words go to."""

    command: Sequence[str]
    process: subprocess.Popen[bytes]
    answer: IO[bytes]
    log: IO[bytes]


def demo() -> None:
    """Starts the stack, loads both pipelines, and shows what happened and the proof of it."""
    _type("dev", "up")
    _type("migrate")
    for name in PIPELINES:
        _type("migrate", name)
    for name in PIPELINES:
        _type("dev", "produce", name, "--records", str(RECORDS), "--up-to")
    # Side by side: each spends its first ten seconds on starting a JVM.
    _type_together(*(("run", name, "--until-idle") for name in PIPELINES))
    for name in PIPELINES:
        _type("batches", name)
        _type("batch", str(_newest(name)["batch"]))
    first = _newest("clicks")["ranges"][0]
    _type("lineage", "clicks", "--partition", str(first["partition"]), "--offset", str(first["from_offset"]))
    for name in PIPELINES:
        _type("verify", name, "--deep")


def _type(*command: str) -> None:
    """Runs one command with its words going straight to the screen."""
    _print(f"\n$ lockstep {' '.join(command)}")
    began = time.monotonic()
    code = subprocess.run([_door(), *command], check=False).returncode
    if code != 0:
        raise CommandFailed(code)
    _time(time.monotonic() - began)


def _type_together(*commands: Sequence[str]) -> None:
    """Runs commands side by side, and shows each one's words when all have ended."""
    _print("\n" + "\n".join(f"$ lockstep {' '.join(command)}" for command in commands))
    began = time.monotonic()
    with ExitStack() as files:
        running = [
            _start(
                command, files.enter_context(tempfile.TemporaryFile()), files.enter_context(tempfile.TemporaryFile())
            )
            for command in commands
        ]
        try:
            _watch(running, began)
        finally:
            # An interrupt from the terminal has reached them too: let them free their leases.
            _end(running)
        for one in running:
            # A log is worth reading only where something went wrong.
            for words in (one.answer, one.log) if one.process.returncode else (one.answer,):
                words.seek(0)
                _print(words.read().decode(errors="replace").rstrip())
    for one in running:
        if one.process.returncode != 0:
            raise CommandFailed(one.process.returncode)
    _time(time.monotonic() - began)


def _start(command: Sequence[str], answer: IO[bytes], log: IO[bytes]) -> Running:
    return Running(command, subprocess.Popen([_door(), *command], stdout=answer, stderr=log), answer, log)


def _watch(running: Sequence[Running], began: float) -> None:
    """Waits for all of them, with a line that lives on a terminal and none elsewhere."""
    console = Console(stderr=True)
    with console.status("") as line:
        while busy := [" ".join(one.command) for one in running if one.process.poll() is None]:
            line.update(f"{time.monotonic() - began:.0f} s: {', '.join(busy)}")
            time.sleep(0.2)


def _end(running: Sequence[Running]) -> None:
    for one in running:
        try:
            one.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            one.process.terminate()
            one.process.wait()


def _newest(name: str) -> dict[str, Any]:
    """The newest batch of a pipeline, as `batches --json` tells it."""
    answer = subprocess.run([_door(), "batches", name, "--json"], check=False, stdout=subprocess.PIPE)
    if answer.returncode != 0:
        raise CommandFailed(answer.returncode)
    newest: dict[str, Any] = json.loads(answer.stdout)["batches"][-1]
    return newest


def _door() -> str:
    return str(Path(sys.executable).with_name("lockstep"))


def _time(seconds: float) -> None:
    _print(f"  ({seconds:.1f} s)")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """The door for make: 0, or the code of the command that failed."""
    began = time.monotonic()
    try:
        demo()
    except CommandFailed as failed:
        return failed.code
    except KeyboardInterrupt:
        return INTERRUPTED
    _print(f"\ndone in {time.monotonic() - began:.0f} s")
    _print(NEXT.format(door=f"{Path(_door()).parent.parent.name}/bin/lockstep").rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
