"""Asks a command for the password of a connection, and keeps the answer for a minute."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePath

from lockstep.adapters.withheld import without
from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.settings import DSN_COMMAND, ENVIRONMENT

PASSWORD_SECONDS = 10.0
PASSWORD_KEPT_SECONDS = 60.0
SECONDS_BETWEEN_PASSWORDS = 5.0
LONGEST_PASSWORD = 65_536  # bytes
BY_HAND = f'eval "${DSN_COMMAND}", as the same user on the same machine'
AS_FOR_A_SHELL = f"set {DSN_COMMAND} to a program and its arguments, quoted as for a shell"


@dataclass(slots=True)
class PasswordCommands:
    """The answers of password commands in this process, each with the moment it was given."""

    _answers: dict[str, tuple[str, float]] = field(default_factory=dict, repr=False)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, command: str, *, refused: str | None = None) -> str:
        """Returns the password: the kept one, or a new one if that is too old.

        One that a server has `refused` is too old soon. A server that is away asks for no password in each try.
        """
        with self._turn:  # several threads that connect at once ask once
            kept, since = self._answers.get(command, ("", 0.0))
            most = SECONDS_BETWEEN_PASSWORDS if kept == refused else PASSWORD_KEPT_SECONDS
            if kept and time.monotonic() - since < most:
                return kept
            answer = _answer_of(command)
            self._answers[command] = (answer, time.monotonic())
            return answer


PASSWORDS = PasswordCommands()


def _answer_of(command: str) -> str:
    """Runs the command without a shell, and returns the one line that it prints. No message repeats its output."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise Refusal(f"{DSN_COMMAND} cannot be split into words: {error}", next_command=AS_FOR_A_SHELL) from None
    if not words:
        raise Refusal(f"{DSN_COMMAND} names no program", next_command=AS_FOR_A_SHELL)
    who = f"{DSN_COMMAND}: {PurePath(words[0]).name} on {socket.gethostname()}"
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=without(ENVIRONMENT),
            start_new_session=True,  # so that its own children end with it
        )
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else "a word holds NUL"
        raise Refusal(f"{who} cannot be started: {what}", next_command=AS_FOR_A_SHELL) from None
    said, ended_in_time = _output_of(process)
    if not ended_in_time:
        raise Unreachable(f"{who} gave no password within {PASSWORD_SECONDS:.0f} s", next_command=BY_HAND)
    if process.returncode and len(said) <= LONGEST_PASSWORD:
        raise Unreachable(f"{who} ended with exit code {process.returncode}", next_command=BY_HAND)
    lines = said.removesuffix(b"\n").removesuffix(b"\r").split(b"\n")
    if len(said) > LONGEST_PASSWORD or len(lines) > 1 or not lines[0] or b"\0" in said:
        raise Refusal(f"{who} did not print one line with a password", next_command=BY_HAND)
    try:
        return lines[0].decode()
    except UnicodeDecodeError:
        raise Refusal(f"{who} printed a password that is no UTF-8", next_command=BY_HAND) from None


def _output_of(process: subprocess.Popen[bytes]) -> tuple[bytes, bool]:
    """Returns what the process prints, up to a byte more than the longest password, and if it ended in time."""
    late = threading.Event()

    def end() -> None:
        if process.returncode is None:
            late.set()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(PASSWORD_SECONDS, end)
    timer.daemon = True
    timer.start()
    with process:  # waits for its end
        try:
            said: bytes = process.stdout.read(LONGEST_PASSWORD + 1)  # type: ignore[union-attr]  # it is a pipe
            if len(said) <= LONGEST_PASSWORD:
                process.wait()
            return said, not late.is_set()
        finally:
            timer.cancel()
            end()
