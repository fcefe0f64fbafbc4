"""Tests the command that gives a password: how it is split, how long it may take, and that no message repeats it."""

from __future__ import annotations

import pickle
import re
import shlex
import sys
import threading
import time

import pytest

from lockstep.adapters.connection import password as asked
from lockstep.adapters.connection.dsn import parts_and_command, staging_dsn, with_password_command
from lockstep.adapters.connection.password import PasswordCommands
from lockstep.adapters.withheld import without
from lockstep.core.errors import Refusal, Unreachable, said_in
from lockstep.core.settings import settings_of
from lockstep.steps.context import Context

CANARY = "c4n4ry"
DSN = "postgresql://u@h:5432/d?sslmode=require"


def python(code: str, *words: str) -> str:
    return shlex.join([sys.executable, "-c", code, *words])


def says(text: str) -> str:
    return python(f"print({text!r}, end='')")


@pytest.mark.parametrize(
    ("command", "expected", "why"),
    [
        (says("s3cret\n"), "s3cret", "the end of the line is not part of it"),
        (says("s3cret\r\n"), "s3cret", "nor is that of another system"),
        (says(" s3cret "), " s3cret ", "blanks may be"),
        (says("pässwörd"), "pässwörd", "it is UTF-8"),
        (says("x" * 4000), "x" * 4000, "a token is long"),
    ],
)
def test_the_line_that_it_prints_is_the_password(command, expected, why):
    assert PasswordCommands().ask(command) == expected, why


def test_it_is_split_as_a_shell_splits():
    command = r"""printf '%s,' 'a b' "c d" e\ f $HOME '*;|' """
    assert PasswordCommands().ask(command) == "a b,c d,e f,$HOME,*;|,"


@pytest.mark.parametrize(
    ("command", "kind", "said"),
    [
        ("awz rds generate-db-auth-token", Refusal, "awz on .* cannot be started: No such file or directory"),
        ("/etc rds", Refusal, "etc on .* cannot be started: Permission denied"),
        ("aws 'rds", Refusal, "cannot be split into words: No closing quotation"),
        ("# aws", Refusal, "# on .* cannot be started"),
        ("'a\0b'", Refusal, "cannot be started: a word holds NUL"),
        pytest.param(
            python(f"import sys; print('{CANARY}'); sys.exit('{CANARY}')"), Unreachable, "exit code 1", id="fails"
        ),
        (python("import os; os.kill(os.getpid(), 9)"), Unreachable, "ended with exit code -9"),
        (says(""), Refusal, "did not print one line"),
        (says("\n"), Refusal, "did not print one line"),
        (says(f"{CANARY}\n{CANARY}\n"), Refusal, "did not print one line"),
        (says(f"{CANARY}\0"), Refusal, "did not print one line"),
        (python(f"import sys; sys.stdout.buffer.write(b'{CANARY}\\xff')"), Refusal, "no UTF-8"),
        (python(f"while True: print('{CANARY}' * 9999)"), Refusal, "did not print one line"),
        (python(f"import time; print('{CANARY}', flush=True); time.sleep(60)"), Unreachable, "no password within 1 s"),
        (python("import os, time; os.close(1); time.sleep(60)"), Unreachable, "no password within 1 s"),
        (f"sh -c 'echo {CANARY}; sleep 60 & wait'", Unreachable, "no password within 1 s"),
    ],
)
def test_a_command_that_gives_none_is_one_line_without_its_output(command, kind, said, monkeypatch):
    monkeypatch.setattr(asked, "PASSWORD_SECONDS", 1.0)
    begun = time.monotonic()

    with pytest.raises(Refusal) as refused:
        PasswordCommands().ask(command)

    line = str(refused.value)
    assert type(refused.value) is kind
    assert re.search(said, line)
    assert line.startswith("LOCKSTEP_DSN_PASSWORD_COMMAND")
    assert "Next: " in line
    assert "\n" not in line
    assert CANARY not in line
    assert time.monotonic() - begun < 20
    # So it is told from a task, whose error is known by its text alone.
    assert type(said_in(f"lockstep.core.errors.{kind.__name__}: {line}")) is kind


def counting(tmp_path) -> str:
    """Returns a command that gives another password each time: pw1, pw2, and so on."""
    file = tmp_path / "asked"
    file.touch()
    return python("import sys; f = open(sys.argv[1], 'a+'); f.write('x'); print(f'pw{f.tell()}')", str(file))


def test_an_answer_is_kept_for_a_minute_and_one_that_is_refused_for_seconds(tmp_path, monkeypatch):
    moments = iter([0.0, 59.0, 59.5, 60.5, 60.5, 61.0, 66.0, 66.0])
    monkeypatch.setattr(asked.time, "monotonic", lambda: next(moments))
    commands, command = PasswordCommands(), counting(tmp_path)

    assert commands.ask(command) == "pw1"  # at 0
    assert commands.ask(command) == "pw1"  # 59
    assert commands.ask(command, refused="an older one") == "pw1"  # 59.5: another thread has asked meanwhile
    assert commands.ask(command) == "pw2"  # 60.5
    assert commands.ask(command, refused="pw2") == "pw2"  # 61
    assert commands.ask(command, refused="pw2") == "pw3"  # 66


def test_threads_that_connect_at_once_ask_once(tmp_path):
    commands, command, answers = PasswordCommands(), counting(tmp_path), []
    threads = [threading.Thread(target=lambda: answers.append(commands.ask(command))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["pw1"] * 5


@pytest.mark.parametrize("words", ["echo x", "aws --cli 'a b' \"c\" \\d", "sh -c 'x=\"1\"; echo $x'"])
def test_it_travels_with_the_dsn_and_libpq_never_sees_it(words):
    dsn = with_password_command(DSN, words)
    through = staging_dsn(pickle.loads(pickle.dumps(dsn)), "stager 1")  # noqa: S301 - our own

    parts, command = parts_and_command(through)

    assert command == words
    assert "passfile" not in parts
    assert {"user": "u", "host": "h", "sslmode": "require"}.items() <= parts.items()
    assert words not in repr(Context(dsn, None))


@pytest.mark.parametrize(
    ("dsn", "why"),
    [
        ("postgresql://u:own@h/d", "a DSN with a password needs none"),
        ("host=h password=own", "in either form"),
        ("nonsense", "who connects refuses it"),
    ],
)
def test_a_dsn_goes_without_the_command(dsn, why):
    assert with_password_command(dsn, "echo x") == dsn, why


def test_a_passfile_of_libpqs_stays():
    parts, command = parts_and_command("host=h passfile=/etc/pg|pass")
    assert (parts["passfile"], command) == ("/etc/pg|pass", None)


@pytest.mark.parametrize(
    ("dsn", "attrs"),
    [
        ("postgresql://u@a:1,b:2/d", "read-write"),
        ("host=a,b port=1,2", "read-write"),
        ("hostaddr=10.0.0.1,10.0.0.2", "read-write"),
        ("host=a,b target_session_attrs=primary", "primary"),
        ("host=a,b target_session_attrs=any", "any"),
        ("host=a", None),
    ],
    ids=["uri", "words", "addresses", "primary", "any", "one"],
)
def test_several_servers_lead_to_the_one_that_can_be_written(dsn, attrs):
    assert parts_and_command(dsn)[0].get("target_session_attrs") == attrs


def test_it_is_read_from_the_environment_and_kept_from_programs():
    environ = {"LOCKSTEP_DSN": "postgresql://u@h/d", "LOCKSTEP_DSN_PASSWORD_COMMAND": " echo x ", "PATH": "/bin"}
    found = settings_of(environ)
    assert found.password_command.split() == ["echo", "x"]
    assert "echo x" not in repr(found)
    assert without(environ) == {"PATH": "/bin"}
