"""Kills runs of all guarantees with both engines on one topic, and then compares each store with what was produced.

Usage: guarantees.py [--records 20000] [--only "at least once"] [--engine spark] [--json] [--page docs/guarantees.md].
Compares whole rows. Exits 1 when a guarantee does not behave as it promises: also when at least once did not double the
batch that was struck between its moves, or at most once did not lose it. `--page` writes the table into the page, when
all guarantees were as promised. The last line counts what was seen.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guarantees_kills import Kill, Victim, strike
from guarantees_rows import committed_by, judge, newest_batch, rows_due, rows_of
from guarantees_table import Outcome, summary, write
from lockstep.cli.progress import shown_progress
from stack import Stack

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator, Sequence

    from stack import Calls, Record

BATCHES = 5
SPARK, PROCESS = ENGINES = ("spark", "process")
FILES = {
    "__init__.py": """from lockstep.core.pipeline.definition import *
P = Pipeline("{name}", "{topic}", Json("id string, n int"), Append("public.{name}"), limits=Limits(records={batch}),
    guarantee={guarantee}, store={store})
""",
    "target.sql": """create table if not exists public.{name} (id text, n int, _stream int4 not null,
    _offset int8 not null, _ordinal int4 not null, _batch int8 not null{unique});
""",
}
UNIQUE = ", primary key (_stream, _offset, _ordinal)"


@dataclass(frozen=True, slots=True)
class Case:
    """A guarantee, the store of its results, and the cost of a crash: nothing, rows doubled, or rows lost.

    `between` is the fault point where one of results and offsets has moved, and the other one has not. A task comes to
    `at_work` in the middle of its work.
    """

    title: str
    guarantee: str
    store: str | None
    between: str
    cost: str = "nothing"
    at_work: str = "task.copy_mid"

    def name(self, engine: str) -> str:
        """Returns the name of the pipeline with this engine."""
        return f"{self.title} {engine}".replace(" ", "_")


CASES = (
    Case("per batch", "PerBatch()", None, "commit.published"),
    # Between COMMIT and its acknowledgement, the task cannot know that its range is committed.
    Case("per partition", "PerPartition()", None, "range.published", at_work="range.done_unacknowledged"),
    Case("idempotent", "Idempotent()", "WAREHOUSE", "deliver.done"),
    Case("at least once", "AtLeastOnce()", "WAREHOUSE", "deliver.done", "doubled"),
    Case("at most once", "AtMostOnce()", "WAREHOUSE", "commit.done_unacknowledged", "lost"),
)
AT_WORK, VALIDATED = "a task is at work", "everything is validated"
BETWEEN, BOTH = "one of the two has moved", "both have moved"
# The driver's moments. Where a task is at work, and where results and offsets move, differs: each case names its own.
MOMENTS = {AT_WORK: None, VALIDATED: "validate.after", BETWEEN: None, BOTH: "announce.before"}


@dataclass(frozen=True, slots=True)
class Bench:
    """The guarantees on one stack, over one topic. The driver is killed at each of these moments."""

    stack: Calls
    records: int
    say: Callable[[str], None]
    batches: int = BATCHES
    moments: tuple[str, ...] = tuple(MOMENTS)
    kills_executors: bool = True

    def suffer(self, case: Case, engine: str, topic: Counter[Record]) -> Outcome:
        """Kills the driver at every moment, and Spark's parts on the way to the end. Then compares store and topic."""
        name, ledger = case.name(engine), self.stack.addresses["ledger"]
        self._define(case, name)
        self.stack.call("migrate", name)
        struck = 0
        for kill in self.drivers(case):
            self._strike(kill, name, engine, "--until-idle")
            struck = newest_batch(ledger, name) if kill.when == BETWEEN else struck
        executors, workers = self.parts(case, engine)
        for kill in executors:
            self._strike(kill, name, engine)
        for kill in workers:  # and the run goes on to the end
            self._strike(kill, name, engine, "--until-idle")
        if not workers:
            self.say(f"{name}: to the end")
            self.stack.call("run", name, "--until-idle", "--engine", engine)
        if (ways := committed_by(ledger, name)) != [engine]:
            raise SystemExit(f"{name}: committed batches were read by {ways}, not by {engine}")
        self.say(f"{name}: {case.store or 'the ledger'} against the topic")
        store = self.stack.addresses[(case.store or "ledger").lower()]
        found = judge(case.cost, rows_due(ledger, name, topic), rows_of(ledger, store, name), struck)
        where = "another Postgres" if case.store else "the ledger's"
        kills = (len(self.moments), len(workers), len(executors))
        return Outcome(case.title, engine, where, topic.total(), *kills, **asdict(found))

    def drivers(self, case: Case) -> Iterator[Kill]:
        """Yields the kills of drivers, each with its JVM. A run first finishes what the one before has left."""
        own = {AT_WORK: case.at_work, BETWEEN: case.between}
        for moment in self.moments:
            yield Kill(Victim.DRIVER, moment, MOMENTS[moment] or own[moment])

    def parts(self, case: Case, engine: str) -> tuple[Sequence[Kill], Sequence[Kill]]:
        """Returns the kills of executors and of Python workers. The driver of this process's engine has neither."""
        if engine != SPARK:
            return (), ()
        executor, worker = (Kill(victim, AT_WORK, case.at_work) for victim in (Victim.EXECUTOR, Victim.WORKER))
        return (executor,) * self.kills_executors, (worker,)

    def _strike(self, kill: Kill, name: str, engine: str, *options: str) -> None:
        self.say(f"{name}: its {kill.victim} is killed when {kill.when}")
        strike(self.stack, kill, "run", name, *options, "--engine", engine)

    def _define(self, case: Case, name: str) -> None:
        folder = self.stack.home / "pipelines" / name
        folder.mkdir(parents=True)
        facts = {
            "name": name,
            "topic": self.stack.topic,
            "batch": self.records // self.batches,
            "guarantee": case.guarantee,
            "store": f'Postgres("{case.store}")' if case.store else None,
            "unique": "" if case.cost == "doubled" else UNIQUE,
        }
        for file, text in FILES.items():
            (folder / file).write_text(text.format(**facts))


def main() -> int:
    """Prints the table. Returns 1 when a guarantee did not behave as it promises."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--records", type=int, default=20_000)
    options.add_argument("--only", choices=[case.title for case in CASES], help="this guarantee alone")
    options.add_argument("--engine", choices=ENGINES, help="this engine alone")
    options.add_argument("--json", action="store_true")
    options.add_argument("--page", type=Path, help="write the table into this page, if all is as promised")
    given = options.parse_args()
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="lockstep-bench-") as home,
        shown_progress("starting a broker and a database") as say,
    ):
        stack = Stack(Path(home))
        try:
            topic, bench = stack.fill(given.records), Bench(stack, given.records, say)
            outcomes = [
                bench.suffer(case, engine, topic)
                for case in CASES
                for engine in ENGINES
                if given.only in {None, case.title} and given.engine in {None, engine}
            ]
        finally:
            stack.end()
    kept = all(outcome.as_promised for outcome in outcomes)
    machine = this_machine(round(time.monotonic() - began))
    if given.page and kept and len(outcomes) == len(CASES) * len(ENGINES):
        write(given.page, outcomes, machine, BATCHES)
    show(outcomes, machine, as_json=given.json)
    return int(not kept)


def this_machine(seconds: int) -> dict[str, Any]:
    """Returns the machine, and how long all of it took."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "memory GiB": round(memory),
        "load": round(os.getloadavg()[0], 1),
        "seconds": seconds,
    }


def show(outcomes: list[Outcome], machine: dict[str, Any], *, as_json: bool) -> None:
    """Prints one line for each guarantee and engine, the machine, and what was seen in all."""
    if as_json:
        found = [asdict(outcome) for outcome in outcomes]
        print(json.dumps({"machine": machine, "guarantees": found, "summary": summary(outcomes)}))
        return
    print(f"{'guarantee':<15}{'engine':<9}{'store':<18}{'records':>8}   killed  {'lost':>8}{'doubled':>9}{'other':>7}")
    for outcome in outcomes:
        mark = "" if outcome.as_promised else "  NOT as promised"
        killed = f"{outcome.drivers:>4}{outcome.workers:>3}{outcome.executors:>3}"
        counts = f"{outcome.records:>8}{killed}  {outcome.lost:>8}{outcome.doubled:>9}{outcome.other:>7}"
        print(f"{outcome.guarantee:<15}{outcome.engine:<9}{outcome.store:<18}{counts}{mark}")
    print(json.dumps(machine))
    print(summary(outcomes))


if __name__ == "__main__":
    sys.exit(main())
