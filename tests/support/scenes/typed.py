"""Types the commands of a page, in a folder like a checkout's, against the servers of the tests."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient

CHECKOUT = Path(__file__).parents[3]
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
MOST_COMMANDS = 12
RECORDS = 1_000


def own_pipeline() -> list[str]:
    """Returns the commands of README's "A pipeline of your own", as they stand there."""
    part = README[README.index("## A pipeline of your own") :]
    (block,) = re.findall(r"\n\n((?:    .+\n)+)", part[: part.index("`make up` starts")])
    return [line.strip() for line in block.splitlines()]


def write_refunds(folder: Path) -> None:
    """Writes the file that README's commands send, with as many records as a first try has."""
    records = [{"id": f"r-{number}", "amount": f"{number}.50"} for number in range(RECORDS)]
    (folder / "refunds.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))


@contextmanager
def home_like_a_checkout(database: str, kafka: str, home: Path, *topics: str):
    """Yields a folder for pipelines and DAGs, with the variables that lead to this test's servers."""
    for folder in ("include/pipelines", "dags"):
        (home / folder).mkdir(parents=True)
    (home / "include" / "pipelines" / "__init__.py").touch()
    environ = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_")}
    environ |= {"LOCKSTEP_DSN": database, "LOCKSTEP_KAFKA": kafka, "SPARK_MASTER": "local[2]"}
    environ |= {
        "LOCKSTEP_JARS": os.environ["LOCKSTEP_JARS"],
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    yield home, environ
    admin = AdminClient({"bootstrap.servers": kafka})
    for gone in admin.delete_topics(list(topics)).values():
        gone.result()


def typed(command: str, home: Path, environ: dict[str, str]) -> str:
    """Types a command. Returns what it prints, and fails if it does not end with 0."""
    done = subprocess.run(
        shlex.split(command, comments=True), cwd=home, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def typed_in_a_shell(line: str, home: Path, environ: dict[str, str], stdin: str = "") -> str:
    """Types a line with pipes and redirections. Returns what it prints, and fails if any part does not end with 0."""
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=home,
        env=environ,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (line, done.stdout, done.stderr)
    return done.stdout
