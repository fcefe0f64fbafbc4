"""Tests what a pipeline's own module can see: under every command, nothing of the process that loads it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lockstep as lockstep_package
from lockstep.adapters import folders
from lockstep.adapters.definition import process
from lockstep.cli.app import command_tree
from support.scenes.authors_code import CANARY, SECRETS, assert_sees_nothing, has_landlock, sights
from support.scenes.command_line import DEFINITION as LARGE
from support.scenes.command_line import assert_refused
from support.scenes.every_command import CALLS

# A definition that writes an answer of its own to every descriptor.
FORGERY = """
import os
for descriptor in range(3, 32):
    try:
        os.write(descriptor, {forged!r}.encode() + b"\\n")
    except OSError:
        pass
"""

TYPED = "from lockstep.cli.app import main; main()"
TYPED_BY_A_USER = f"from lockstep.adapters.definition.server import drop_capabilities; drop_capabilities(); {TYPED}"
# Without Landlock, as on an older kernel: each of the two guards is tested alone.
WITHOUT_LANDLOCK = """
from lockstep.adapters.definition import connection
connection.EVALUATOR = connection.EVALUATOR.replace("answer_requests()\\n", "")
connection.EVALUATOR += "from lockstep.adapters.definition import server\\n"
connection.EVALUATOR += "server._restrict_to_own_processes = lambda: None\\nserver.answer_requests()\\n"
"""

# What the ledger knows needs no code.
IMPORTS_NOTHING = {"batch", "batches", "blame", "certificate", "changes", "lineage", "metrics", "rejects"}
# Commands of CALLS that are not typed here, each with its reason.
NOT_TYPED = {
    "init": "makes a project, and loads no pipeline",
    "cd": "is no command",
    "demo": "starts servers of its own; its steps are those of `run`",
    "dev": "starts and stops servers, and `topic` and `produce` load as `run` does; typed below",
    "watch": "ends by Ctrl-C; it loads as `status` does",
    "new": "writes a folder, and loads no pipeline",
    "canary": "needs Spark; it loads as `check` does",
}


def calls() -> list[str]:
    """Returns calls of every command, over `orders`. One that `CALLS` lacks is made from its required arguments."""
    typed = [re.sub(r"\b(refunds|bills|sales|sold|clicks)\b", "orders", line) for line in CALLS.split("\n") if line]
    known = {line.split()[0] for line in typed}
    new = [_call_of(name, command) for name, command in command_tree().commands.items() if name not in known]  # type: ignore[attr-defined]
    ours = [line for line in typed if line.split()[0] not in NOT_TYPED]
    return [*dict.fromkeys(ours), *new, "rejects orders", "changes orders"]


def _call_of(name: str, command: Any) -> str:
    words = [name]
    for each in command.params:
        if each.required:
            value = "1" if each.type.name.startswith("int") else "orders"
            words += [value] if each.param_type_name == "argument" else [each.opts[0], value]
    return " ".join(words)


def needs_no_code(call: str) -> bool:
    return call.split(maxsplit=1)[0] in IMPORTS_NOTHING and "--redrive" not in call  # which asks for new batches


@pytest.fixture
def canary(define, lockstep, topic, produce, monkeypatch):
    """Returns a pipeline `orders` with a batch, whose module writes down what it sees, and the file of it."""
    seen = lockstep.home / "seen.jsonl"
    name = topic(partitions=1)
    produce(name, [(b"k", json.dumps({"id": f"r-{n}", "n": n})) for n in range(3)])
    define("orders", name)
    source = lockstep.pipelines / "orders" / "__init__.py"
    source.write_text(source.read_text() + CANARY.format(seen=str(seen)))
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", lockstep.home / "signing.pem"], check=True)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    return seen


def test_no_command_shows_a_module_its_secrets(canary, lockstep):
    assert lockstep("run", "orders").code == 0
    assert sights(canary), "the canary sings"
    (batch,) = [each["batch"] for each in lockstep("batches", "orders", "--json").document["batches"]]
    text = (lockstep.pipelines / "orders" / "__init__.py").read_text()
    sang = set()
    for number, call in enumerate(calls()):
        file = lockstep.pipelines / "orders" / "__init__.py"
        if file.exists():
            file.write_text(f"{text}# {number}\n")  # so that no earlier look answers
        said = lockstep(*(str(batch) if word == "BATCH" else word for word in shlex.split(call)))
        assert "Traceback" not in said.err, (call, said)
        seen = sights(canary)
        assert not (seen and needs_no_code(call)), call
        for sight in seen:
            assert_sees_nothing(sight, canary, call)
            sang.add(call.split()[0])
    assert {"check", "migrate", "plan", "status", "verify", "doctor", "replay"} <= sang


@pytest.mark.parametrize("typed", [TYPED_BY_A_USER, TYPED], ids=["without capabilities", "with those of this test"])
@pytest.mark.parametrize("command", ["check", "migrate", "status"])
def test_a_module_cannot_read_the_environment_of_the_command_above_it(canary, lockstep, command, typed):
    code = str(Path(lockstep_package.__file__).parents[1])
    environ = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONPATH": code} | {
        name: os.environ[name] for name in (*SECRETS, "LOCKSTEP_DSN", "LOCKSTEP_KAFKA")
    }
    without = WITHOUT_LANDLOCK + typed
    subprocess.run([sys.executable, "-c", without, command, "orders"], env=environ, cwd=lockstep.home, check=True)

    (sight,) = sights(canary)
    assert sight["above"][:2] == ["PermissionError"] * 2, "the evaluating process, and the command"
    assert not [above for above in sight["above"] if "secret-of" in above]


def test_a_command_that_is_new_is_typed(monkeypatch):
    parameters = [
        SimpleNamespace(required=True, type=SimpleNamespace(name=kind), param_type_name=sort, opts=[option])
        for kind, sort, option in (("text", "argument", "name"), ("integer", "option", "--batch"))
    ]
    monkeypatch.setattr(
        sys.modules[__name__],
        "command_tree",
        lambda: SimpleNamespace(commands={"status": None, "shiny": SimpleNamespace(params=parameters)}),
    )
    assert "shiny orders --batch 1" in calls()


@pytest.mark.skipif(not has_landlock(), reason="this kernel has no Landlock: docs/security.md says what stays readable")
def test_a_module_cannot_read_the_environment_of_other_processes_of_its_user(canary, lockstep):
    code = str(Path(lockstep_package.__file__).parents[1])
    environ = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONPATH": code} | {
        name: os.environ[name] for name in (*SECRETS, "LOCKSTEP_DSN", "LOCKSTEP_KAFKA")
    }
    # As where a shell of the same user has the secrets, and none of the processes has a right of root.
    runs = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {TYPED!r}, *sys.argv[1:]], check=True)"
    shell = TYPED_BY_A_USER.replace(TYPED, runs)
    subprocess.run([sys.executable, "-c", shell, "check", "orders"], env=environ, cwd=lockstep.home, check=True)

    for sight in sights(canary):
        assert len(sight["above"]) > 3, "the server, the command, the shell, this test"
        assert_sees_nothing(sight, canary, "check")


def test_a_module_that_answers_for_itself_is_not_believed(define, lockstep, topic):
    define("orders", topic())
    source = lockstep.pipelines / "orders" / "__init__.py"
    for forged, words in (
        ('{"document": {"name": "orders"}}', "is of another version"),
        ('{"document": [1]}', "its process answered no definition"),
        ('{"broken": 3}', "its process answered no definition"),
        ("[" * 100_000, "its process answered no definition"),
        ("nothing", "its process answered no definition"),
        ('{"broken": ["x.py", 3, "red \\u001b[31m\\ntwo lines"]}', "x.py:3: red \\x1b[31m\\ntwo lines"),
    ):
        source.write_text(FORGERY.format(forged=forged))
        assert_refused(lockstep("plan", "orders"), words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import os\nos._exit(7)", "__init__.py: its process ended with exit code 7, without a definition"),
        ("import os\nos.kill(os.getpid(), 9)", "__init__.py: its process ended by signal 9, without a definition"),
        ("import sys\nsys.exit('gone')", "__init__.py:2: SystemExit: gone"),
        ("import time\ntime.sleep(20)", "__init__.py: it was not evaluated within 1 s"),
        (
            LARGE.replace('name="orders",', 'name="orders", owner="x" * 5_000_000,'),
            "__init__.py: its definition is larger than 4194304 bytes as JSON",
        ),
        ("raise ValueError('x' * 10_000)", "__init__.py:1: ValueError: xxx"),
        ("print('no', flush=True)\nimport os\nos.write(1, b'no')\n1 / 0", "__init__.py:4: ZeroDivisionError"),
    ],
    ids=["exits", "killed", "leaves", "hangs", "large", "says too much", "prints"],
)
def test_a_module_that_ends_or_hangs_is_one_line(define, lockstep, topic, monkeypatch, text, words):
    define("orders", topic())
    if "sleep" in text:
        monkeypatch.setattr(process, "SECONDS_EACH", 1.0)
    (lockstep.pipelines / "orders" / "__init__.py").write_text(text)

    said = lockstep("plan", "orders")

    assert_refused(said, words)
    assert len(said.err) < 3_000


def test_one_broken_module_hides_no_other(lockstep):
    lockstep.define("orders")
    lockstep.define("bad", init="import os\nos._exit(1)")
    lockstep.define("worse", init="1 / 0")
    found = folders.load_each(folders.pipeline_names())

    assert found["orders"].pipeline.name == "orders"
    assert "exit code 1" in str(found["bad"])
    assert "ZeroDivisionError" in str(found["worse"])


def test_a_folder_is_evaluated_again_when_a_file_of_it_changes_and_not_before(lockstep):
    place = lockstep.define("orders")
    count, source = lockstep.home / "count", place / "__init__.py"
    more = f"from .words import TOPIC\nwith open({str(count)!r}, 'a') as f: f.write('x')\n"
    (place / "words.py").write_text("TOPIC = 'a.v1'\n")
    source.write_text(more + source.read_text().replace('"orders.v1"', "TOPIC"))

    assert [folders.load("orders").pipeline.topic for _ in range(3)] == ["a.v1"] * 3
    assert count.read_text() == "x"
    (place / "words.py").write_text("TOPIC = 'b.v1'\n")
    assert folders.load("orders").pipeline.topic == "b.v1"
    assert count.read_text() == "xx"


@pytest.mark.parametrize(
    "read",
    ["os.environ['STAGE']", "os.environ.get('STAGE', 'test')", "os.getenv('STAGE')"],
    ids=["item", "default", "getenv"],
)
def test_a_variable_that_is_withheld_is_named_and_has_no_silent_default(lockstep, monkeypatch, read):
    source = lockstep.define("orders") / "__init__.py"
    source.write_text(f"import os\nx = {read}\n{source.read_text()}")
    monkeypatch.setenv("STAGE", "production")
    words = "__init__.py:2: it reads the environment variable STAGE, which no definition is given"
    assert_refused(lockstep("plan", "orders"), words)

    source.write_text(source.read_text().replace("STAGE", "NOT_SET"))
    assert ("NOT_SET" in lockstep("plan", "orders").err) is ("[" in read), "as Python has it"


def test_the_answer_is_of_the_pipeline_that_was_asked_for(lockstep):
    source = lockstep.define("orders") / "__init__.py"
    other = folders.load("orders").pipeline.document() | {"name": "other"}
    source.write_text(FORGERY.format(forged=json.dumps({"document": other})))

    assert_refused(lockstep("plan", "orders"), "__init__.py: its process answered the definition of other")


def test_a_dag_file_and_a_task_load_as_a_command_does(canary, lockstep):
    from lockstep.airflow.bundle import pipeline_beside, pipelines_beside  # noqa: PLC0415 - nothing else here is Airflow's

    source, file = lockstep.pipelines / "orders" / "__init__.py", lockstep.home / "dags" / "orders.py"
    for number, load in enumerate((pipeline_beside, lambda file, _: pipelines_beside(file)["orders"])):
        source.write_text(f"{source.read_text()}# {number}\n")
        assert load(file, "orders").name == "orders"
        (sight,) = sights(canary)
        assert_sees_nothing(sight, canary, str(number))


def test_nothing_else_runs_a_definition():
    code = Path(lockstep_package.__file__).parent
    runs = {str(file.relative_to(code)) for file in code.rglob("*.py") if "exec_module" in file.read_text()}
    asks = {str(file.relative_to(code)) for file in code.rglob("*.py") if "definition.author" in file.read_text()}

    assert runs == {"adapters/definition/author.py"}
    assert asks == {"adapters/definition/server.py"}
