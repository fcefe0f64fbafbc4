"""Lists every command of README.md, and how it ends when somebody types all of them from top to bottom."""

from __future__ import annotations

import re
from dataclasses import dataclass

from support.scenes.typed import README

TYPED = r"(?:make|source|pip|lockstep|python) [^`\n]+"
COMMAND = re.compile(rf"^    (?:\$ )?({TYPED})$|`({TYPED})`", re.MULTILINE)


@dataclass(frozen=True)
class Ends:
    """The exit code of a command and a part of its output. `typed` is what a reader writes instead of placeholders."""

    says: str = ""
    code: int = 0
    typed: str = ""


SERVED = (
    "lockstep metrics --serve 9300 & sleep 15; curl --silent --fail 127.0.0.1:9300/metrics; kill %1; wait %1 || true"
)
ENDS = {
    "make demo": Ends("50000 records decoded again and compared"),
    "source .venv/bin/activate": Ends(),
    "lockstep dev status --password": Ends("Airflow's pages: http://127.0.0.1:"),
    "make wheel": Ends("dist/lockstep_kafka-"),
    "lockstep run clicks --until-idle": Ends(),
    "lockstep verify clicks --deep": Ends(
        "clicks: every check holds. public.clicks: coordinates and contents compared"
    ),
    "lockstep lineage NAME --partition P --offset O": Ends(
        "clicks.v1-0", typed="lockstep lineage clicks --partition 0 --offset 0"
    ),
    "lockstep blame NAME --key K": Ends("orders.v1-", typed="lockstep blame orders --key o-000003001"),
    "lockstep run orders": Ends(),
    "lockstep replay orders --from 0:0 --until 0:500 --preview": Ends("preview"),
    "lockstep dev produce orders --records 1000": Ends("1000 records onto orders.v1"),
    'lockstep skip orders --to latest --reason "urgent"': Ends(),
    "lockstep fill orders": Ends("written"),
    "lockstep rejects clicks --redrive --preview": Ends("rejects: 486 before, 486 after"),
    "lockstep holes orders --explain": Ends(),
    "lockstep doctor": Ends(),
    "lockstep status": Ends("clicks"),
    "lockstep metrics --serve 9300": Ends("lockstep_lag_records", typed=SERVED),
    "lockstep hours NAME": Ends(typed="lockstep hours clicks"),
    "make up": Ends(),
    "lockstep migrate": Ends(),
    'lockstep new refunds --topic refunds.v1 --columns "id string, amount decimal(12,2)"': Ends("target.sql"),
    "lockstep migrate refunds": Ends(),
    "lockstep dev topic refunds --partitions 4": Ends("refunds.v1"),
    "lockstep dev produce refunds --from refunds.jsonl --key id": Ends("1,000 records onto refunds.v1"),
    "lockstep run refunds --until-idle": Ends("1000 written, 0 rejected"),
    "lockstep verify refunds --deep": Ends("refunds: every check holds."),
    "lockstep dev up --airflow": Ends("Airflow's pages"),
    "lockstep try refunds --file refunds.jsonl": Ends("a run would commit: 1000 rows, 0 rejects"),
    "make guarantees": Ends("at most once"),
    "make docs": Ends("build/docs/index.html"),
    "make down": Ends(),
    "make clean": Ends(),
}
LAST = ("make down", "make clean")  # README names them where it says what a build leaves behind
ELSEWHERE = {
    "make test": "runs the tests, and this is one of them",
    "make bench": "takes 45 minutes, and writes figures of a quiet machine; `make bench-quick` is its small form",
    "pip install --require-hashes -r requirements-build.txt": "typed in an empty environment by test_all_install.py",
    "pip install --require-hashes --no-deps --no-build-isolation -r requirements.txt -r requirements-servers.txt": "the same",
    "pip install --no-deps lockstep_kafka-0.2.0-py3-none-any.whl": "typed in an empty environment by test_all_install.py",
    "lockstep demo": "typed in an empty environment by test_all_install.py",
    "lockstep init shop": "typed in an empty environment by test_all_install.py",
    "lockstep new": "the name of a command that the page has typed a few lines before, with its arguments",
}


def commands() -> list[str]:
    """Returns each command of README in its order, without comments. One that is only named again comes once more."""
    found = [(block or inline).split("  #")[0].strip() for block, inline in COMMAND.findall(README)]
    typed = [command for command in found if command not in LAST]
    named_again = {"make demo", "make up"}  # in a sentence about the block where they are typed
    return [command for n, command in enumerate(typed) if command not in named_again or command not in typed[:n]] + [
        command for command in LAST if command in found
    ]
