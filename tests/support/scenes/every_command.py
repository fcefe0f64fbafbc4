"""Types every command once with plausible arguments, in an empty folder, in one Python that a test chooses."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.cli.app import command_tree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

WHY = "--reason test"
# In an order in which each has something to do. `cd` changes the folder, `watch` is interrupted, BATCH is the newest one.
CALLS = f"""
init shop --examples
cd shop
demo
dev status
dev env
dev jars
dev up
dev up --airflow
dev up --spark-connect
dev status
dev status --password
dev env
migrate
new refunds --topic refunds.v1 --columns "id string, n int"
new bills --topic bills.v1 --format avro
check refunds
check clicks
check
try refunds --file refunds.jsonl --key id
migrate refunds
migrate bills
migrate sales
migrate sold
dev topic refunds --partitions 4
dev topic sales
dev topic bills
dev produce refunds --from refunds.jsonl --key id
dev produce sales --records 50
dev produce bills --from refunds.jsonl
plan refunds --dry-run
run refunds --until-idle
run sales
run sold
run bills
status
status refunds
retention refunds
watch refunds
metrics
batches refunds
batch BATCH
files refunds --batch BATCH
files sold --batch BATCH
hours refunds
lineage refunds --partition 0 --offset 0
blame refunds --key r-1
windows sales --last 24
late sales --admit {WHY}
changes refunds --limit 1
relay refunds --until-idle
holes refunds --explain
rejects refunds --redrive --preview
verify refunds --deep
verify sales
verify sold
certificate refunds --batch BATCH --key signing.pem
doctor refunds
doctor
canary refunds --transform new.py
promote refunds --transform new.py {WHY}
adopt refunds --group loader
replay refunds --from 0:0 --until 0:1 --preview
replay refunds --batch BATCH
skip refunds --to latest {WHY}
fill refunds
archive refunds
upkeep refunds --lake --dry-run
upkeep sold --lake --dry-run
reap
recount refunds {WHY}
accept-loss refunds --partition 0 --from 0 --until 1 {WHY}
retire refunds {WHY}
move refunds --to-topic refunds.v2
hand-over public.refunds --from refunds --to sales {WHY}
restored refunds {WHY}
erase refunds --key r-1 --column id {WHY}
pause refunds {WHY}
unpause refunds {WHY}
abandon BATCH {WHY}
clone refunds --to copied
rename refunds returned {WHY}
forget copied {WHY}
dev down
"""
IN_ONE_PYTHON = """
import contextlib, io, json, os, signal, sys, threading
from lockstep.cli.app import main
def newest():
    sys.argv, printed = ["lockstep", "batches", "refunds"], io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main()
    return printed.getvalue().splitlines()[1].split()[0]
for words in json.load(sys.stdin):
    if words[0] == "cd":
        os.chdir(words[1])
        continue
    end = threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT))
    if words[0] == "watch":
        end.start()
    sys.argv, code = ["lockstep", *(newest() if word == "BATCH" else word for word in words)], None
    for out in (sys.stdout, sys.stderr):
        print("TYPED", file=out, flush=True)
    try:
        main()
    except SystemExit as left:
        code = left.code
    end.cancel()
    print("EXIT", int(code or 0), flush=True)
"""
RECORDS = "".join(f"{json.dumps({'id': f'r-{n}', 'n': n})}\n" for n in range(50))
TRANSFORM = "def transform(records):\n    return records\n"


@dataclass(frozen=True)
class Typed:
    """The end of a call: its exit code, and what it wrote."""

    call: str
    code: int
    out: str
    err: str


def type_every_command(python: str, folder: Path, environ: Mapping[str, str]) -> list[Typed]:
    """Types `CALLS` in this folder, by this Python. Returns how each ended."""
    shop = folder / "shop"
    shop.mkdir()
    (shop / "refunds.jsonl").write_text(RECORDS)
    (shop / "new.py").write_text(TRANSFORM)
    calls = [shlex.split(line) for line in CALLS.split("\n") if line]
    door = "from lockstep.cli.app import main; main()"
    try:
        done = subprocess.run(
            [python, "-c", IN_ONE_PYTHON],
            input=json.dumps(calls),
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    finally:
        subprocess.run([python, "-c", door, "dev", "down"], cwd=shop, env=environ, check=True, capture_output=True)
    typed = [" ".join(words) for words in calls if words[0] != "cd"]
    outs, errs = (text.split("TYPED\n")[1:] for text in (done.stdout, done.stderr))
    assert len(outs) == len(errs) == len(typed), (done.stdout[-1000:], done.stderr[-3000:])
    ends = [re.fullmatch(r"(.*?)EXIT (\d+)\n", out, re.DOTALL) for out in outs]
    return [Typed(call, int(end[2]), end[1], err) for call, end, err in zip(typed, ends, errs, strict=True) if end]


def commands_without_a_call() -> list[str]:
    """Returns the commands that `CALLS` does not type."""
    every = [
        f"{name} {sub}" if hasattr(command, "commands") else name
        for name, command in command_tree().commands.items()  # type: ignore[attr-defined]
        for sub in getattr(command, "commands", [""])
    ]
    typed = [f"{line} " for line in CALLS.splitlines()]
    return [name for name in every if not any(line.startswith(f"{name} ") for line in typed)]


def flaws(typed: Sequence[Typed]) -> list[Typed]:
    """Returns the calls that ended with a traceback, or that lack a module without naming its extra."""
    return [
        each
        for each in typed
        if each.code not in {0, 1, 2, 3, 4, 5, 130}
        or "Traceback" in each.out + each.err
        or "No module named" in each.out + each.err
        or ("not installed" in each.err and "pip install 'lockstep-kafka[" not in each.err)
    ]
