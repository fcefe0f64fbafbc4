"""Runs the demo: the commands that a newcomer would type, with Airflow's scheduler at work between them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

from lockstep.adapters import folders
from lockstep.adapters.folders import load
from lockstep.core.errors import Refusal
from lockstep.dev import project
from lockstep.dev.drain import drain
from lockstep.dev.records.folding import fold_topic, same_rows
from lockstep.dev.records.scanning import can_scan, scan_sales
from lockstep.dev.servers import airflow, stack
from lockstep.installed import CHECKOUT, IN_CHECKOUT

# Those that Airflow's scheduler runs, each with its number of records. A transform makes the rows of `reviews`.
PIPELINES = {"orders": 50_000, "clicks": 50_000, "reviews": 5_000}
WINDOWED = "sales"
SALES = 4_000  # eleven hours of them
IN_LAKE = "sold"  # every sale, in an Iceberg table
INTERRUPTED = 130
NEXT = """
The stack is still up, and its scheduler goes on: new records are committed within five minutes.

  Airflow  {address}   user {user}   password {password}

What to try next:

  source {activate}        # from then on, this shell knows lockstep; without it, type {door}{enter}
  lockstep dev produce clicks --records 200000
  lockstep status clicks
  lockstep blame orders --key o-000003001
  lockstep dev status --password          # Airflow's address, user and password again
  lockstep late sales --admit --reason "the shop was offline"    # what came too late counts after all
  eval "$(lockstep dev env)" && psql "$LOCKSTEP_DSN"    # public.orders, public.clicks, public.reviews, lockstep.*
  lockstep dev down                       # the data stay

{own}
"""
README = "README.md shows the commands for a pipeline of your own."


class CommandFailed(Exception):  # noqa: N818 - the command has said why already
    """A command of the demo exited with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def demo() -> airflow.Airflow:
    """Starts the stack, loads pipelines into Postgres and the lake, and shows results and proof."""
    _type("dev", "jars")
    _type("dev", "up", "--airflow")
    _type("migrate")
    for name in (*PIPELINES, WINDOWED):
        _type("migrate", name)
    for name, records in PIPELINES.items():
        _type("dev", "produce", name, "--records", str(records), "--up-to")
    scheduled = _scheduled()
    _drain(scheduled)
    for name in PIPELINES:
        _type("batches", name)
        _type("batch", str(_newest(name)["batch"]))
    first = _newest("clicks")["ranges"][0]
    _type("lineage", "clicks", "--partition", str(first["partition"]), "--offset", str(first["from_offset"]))
    for name in PIPELINES:
        _type("verify", name, "--deep")
    _show_windows()
    if can_scan():
        _show_lake()
    return scheduled


def _show_windows() -> None:
    """Shows windows that time passes and late records correct, and a topic that folds to their table."""
    for records in (SALES, 2 * SALES):
        _type("dev", "produce", WINDOWED, "--records", str(records), "--up-to")
        _type("run", WINDOWED, "--until-idle")
    _type("windows", WINDOWED, "--last", "6")
    _type("late", WINDOWED, "--last", "4")
    _type("verify", WINDOWED, "--deep")
    _print("\na consumer that knows nothing of Lockstep reads the topic of the windows")
    began = time.monotonic()
    _print(f"  {_compare_topic(_kafka())}")
    _time(time.monotonic() - began)


def _show_lake() -> None:
    """Fills an Iceberg table with the sales whose totals are in Postgres, and has DuckDB read its files."""
    _type("migrate", IN_LAKE)
    _type("run", IN_LAKE, "--until-idle")
    _print("\nDuckDB, which knows nothing of Lockstep, reads the files of the Iceberg table")
    began = time.monotonic()
    (table,) = _answer("files", IN_LAKE)["tables"]
    files = [file for file in table["files"] if file["shown"]]
    found = scan_sales([file["path"].removeprefix("file://") for file in files])
    for each in found:
        _print(f"  {each.shop}: {each.sales} sales of {each.offsets} offsets, {each.revenue}")
    committed = sum(file["rows"] for file in files)
    if not sum(each.sales for each in found) == sum(each.offsets for each in found) == committed:
        raise Refusal(f"{table['table']} has not each offset once", next_command=f"lockstep verify {IN_LAKE} --deep")
    _print(f"  {table['table']}: {committed} rows committed, and each of their offsets once")
    _time(time.monotonic() - began)


def _compare_topic(bootstrap: str) -> str:
    """Says to which rows the topic of the windows folds. Raises `Refusal` if they are not the table's."""
    (target,) = load(WINDOWED).pipeline.targets
    if target.feed is None or target.feed.to is None:
        raise Refusal(f"{WINDOWED} sends no feed", next_command=f"lockstep check {WINDOWED}")
    topic = target.feed.to.name
    folded = fold_topic(bootstrap, topic)
    rows = _answer("changes", WINDOWED, "--snapshot")["rows"]
    if not same_rows(folded.rows.values(), rows):
        raise Refusal(
            f"{topic} folds to {len(folded.rows)} rows that are not the {len(rows)} of {target.table}",
            next_command=f"lockstep verify {WINDOWED} --deep",
        )
    return f"{topic}: {folded.records} records fold to {len(rows)} rows, and these are those of {target.table}"


def _drain(scheduled: airflow.Airflow) -> None:
    _print(f"\nAirflow's scheduler runs {', '.join(PIPELINES)} until nothing is left")
    began = time.monotonic()
    for name, runs in drain(scheduled.api(), tuple(PIPELINES)).items():
        _print(f"  {name}: {', '.join(runs) or 'nothing was left to do'}")
    _time(time.monotonic() - began)


def _kafka() -> str:
    known = stack.find_stack()
    if known is None or known.kafka is None:
        raise Refusal("Kafka is not running any more.", next_command=stack.UP)
    return known.kafka


def _scheduled() -> airflow.Airflow:
    known = stack.find_stack()
    running = airflow.running(known.home) if known else None
    if running is None:
        raise Refusal("Airflow is not running any more.", next_command=f"{stack.UP} --airflow")
    return running


def _type(*command: str) -> None:
    """Runs one command with its output on the screen."""
    _print(f"\n$ lockstep {' '.join(command)}")
    began = time.monotonic()
    code = subprocess.run([_door(), *command], check=False).returncode
    if code != 0:
        raise CommandFailed(code)
    _time(time.monotonic() - began)


def _newest(name: str) -> dict[str, Any]:
    """Returns the newest batch of a pipeline."""
    newest: dict[str, Any] = _answer("batches", name)["batches"][-1]
    return newest


def _answer(*command: str) -> dict[str, Any]:
    """Returns the JSON of one command."""
    done = subprocess.run([_door(), *command, "--json"], check=False, stdout=subprocess.PIPE)
    if done.returncode != 0:
        raise CommandFailed(done.returncode)
    answer: dict[str, Any] = json.loads(done.stdout, parse_float=Decimal)
    return answer


def _door() -> str:
    return str(Path(sys.executable).with_name("lockstep"))


def _time(seconds: float) -> None:
    _print(f"  ({seconds:.1f} s)")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def last_words(address: str, user: str, password: str, folder: Path | None = None) -> str:
    """Returns the commands to type next, as they are typed in the checkout, or in the demo's folder."""
    programs = Path(_door()).parent
    place = programs if folder else Path(programs.parent.name, programs.name)
    return NEXT.format(
        door=place / "lockstep",
        activate=place / "activate",
        own="`lockstep new --help` begins a pipeline of your own." if folder else README,
        enter=f"\n  cd {folder}" if folder else "",
        address=address,
        user=user,
        password=password,
    )


def show_demo(folder: Path) -> int:
    """Runs the demo in the checkout or project that has its pipelines. Else lays them out in this folder.

    Returns 0, or the code of the command that failed.
    """
    began, came_from = time.monotonic(), Path.cwd()
    try:
        os.chdir(_enter(folder))
        scheduled = demo()
    except CommandFailed as failed:
        return failed.code
    except KeyboardInterrupt:
        return INTERRUPTED
    _print(f"\ndone in {time.monotonic() - began:.0f} s")
    entered = None if Path.cwd() in {came_from, CHECKOUT} else Path(os.path.relpath(Path.cwd(), came_from))
    _print(last_words(scheduled.address, scheduled.user, scheduled.password, entered).rstrip())
    return 0


def _enter(folder: Path) -> Path:
    """Returns the folder that the demo runs in, with its pipelines."""
    if IN_CHECKOUT:
        return CHECKOUT
    with suppress(Refusal):
        if {*PIPELINES, WINDOWED} <= set(folders.pipeline_names()):
            return Path.cwd()
    if folder.exists() and not (folder / project.STATE).exists():
        raise Refusal(f"{folder} is there, and is no project", next_command="lockstep demo --folder ANOTHER")
    project.lay_out(folder.absolute(), examples=True)
    return folder.absolute()
