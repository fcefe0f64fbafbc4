"""Compares all guarantees on one topic with the same crashes, and then each store with the topic, record by record.

Usage: guarantees.py [--records 20000] [--only "at least once"] [--json] [--page docs/guarantees.md]. Exits 1 when a
guarantee that promises each record once has lost or doubled one. Exits 1, too, when at least once was not seen to
double, or at most once not to lose. `--page` writes the table into the page, when all guarantees were as promised.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg2

from guarantees_table import Row, write
from lockstep.cli.batches.running import shown_progress
from stack import Stack

if TYPE_CHECKING:
    from collections.abc import Callable

    from stack import Calls

BATCHES = 5
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

    `between` is the fault point where one of results and offsets has moved, and the other one has not.
    """

    title: str
    guarantee: str
    store: str | None
    between: str
    cost: str = "nothing"

    @property
    def name(self) -> str:
        """Returns the pipeline's name."""
        return self.title.replace(" ", "_")


CASES = (
    Case("per batch", "PerBatch()", None, "commit.published"),
    Case("per partition", "PerPartition()", None, "range.published"),
    Case("idempotent", "Idempotent()", "WAREHOUSE", "deliver.done"),
    Case("at least once", "AtLeastOnce()", "WAREHOUSE", "deliver.done", "doubled"),
    Case("at most once", "AtMostOnce()", "WAREHOUSE", "commit.done_unacknowledged", "lost"),
)
VALIDATED, BETWEEN = "everything is validated", "one of the two has moved"
# The point of each moment. Where a guarantee moves results and offsets differs, so each case names its own.
CRASHES = {VALIDATED: "validate.after", BETWEEN: None, "both have moved": "announce.before"}


@dataclass(frozen=True, slots=True)
class Bench:
    """The guarantees on one stack, over one topic."""

    stack: Calls
    records: int
    say: Callable[[str], None]
    batches: int = BATCHES
    moments: tuple[str, ...] = tuple(CRASHES)

    def suffer(self, case: Case, topic: Counter[tuple[int, int]]) -> Row:
        """Runs every crash, then a run to the end, and then compares the store with the topic."""
        self._define(case)
        self.stack.call("migrate", case.name)
        for moment in self.moments:
            self.say(f"{case.title}: killed when {moment}")
            self._kill(case, CRASHES[moment] or case.between)
        self.say(f"{case.title}: to the end")
        done = json.loads(self.stack.call("run", case.name, "--until-idle", "--json"))
        self.say(f"{case.title}: {case.store or 'the ledger'} against the topic")
        lost, doubled, as_promised = judge(case, topic, self._rows(case))
        behind = done["batches"][1:]
        seconds = sum(sum(filter(None, batch["seconds"].values())) for batch in behind)
        pace = round(sum(batch["rows_written"] for batch in behind) / seconds) if behind else None
        store = "another Postgres" if case.store else "the ledger's"
        return Row(case.title, store, topic.total(), len(self.moments), lost, doubled, pace, as_promised)

    def _kill(self, case: Case, point: str) -> None:
        """Starts a `lockstep run` that kills itself and its JVM by SIGKILL at this point. Fails if it survives.

        It first finishes what an earlier crash has left, which may be past the point already.
        """
        armed = self.stack.home / "armed"
        armed.touch()
        self.stack.call("run", case.name, "--until-idle", fault=f"{point}=group@{armed}")

    def _rows(self, case: Case) -> Counter[tuple[int, int]]:
        with closing(psycopg2.connect(self.stack.addresses["ledger"])) as conn, conn.cursor() as cur:
            cur.execute("set role lockstep_reader")
            cur.execute("select stream_id, partition from lockstep.stream where pipeline = %s", (case.name,))
            partitions = dict(cur.fetchall())
        with (
            closing(psycopg2.connect(self.stack.addresses[(case.store or "ledger").lower()])) as conn,
            conn.cursor() as cur,
        ):
            if case.store is None:
                cur.execute("set role lockstep_reader")
            cur.execute(f"select _stream, _offset from public.{case.name}")
            return Counter((partitions[stream], offset) for stream, offset in cur.fetchall())

    def _define(self, case: Case) -> None:
        folder = self.stack.home / "pipelines" / case.name
        folder.mkdir(parents=True)
        facts = {
            "name": case.name,
            "topic": self.stack.topic,
            "batch": self.records // self.batches,
            "guarantee": case.guarantee,
            "store": f'Postgres("{case.store}")' if case.store else None,
            "unique": "" if case.cost == "doubled" else UNIQUE,
        }
        for file, text in FILES.items():
            (folder / file).write_text(text.format(**facts))


def judge(case: Case, topic: Counter[tuple[int, int]], rows: Counter[tuple[int, int]]) -> tuple[int, int, bool]:
    """Returns the records lost, the rows doubled, and whether this is exactly what the guarantee allows and costs."""
    costs = {"lost": (topic - rows).total(), "doubled": (rows - topic).total()}
    return costs["lost"], costs["doubled"], all(bool(costs[cost]) == (cost == case.cost) for cost in costs)


def main() -> int:
    """Prints the table. Returns 1 when a guarantee did not behave as it promises."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--records", type=int, default=20_000)
    options.add_argument("--only", choices=[case.title for case in CASES], help="this guarantee alone")
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
            rows = [bench.suffer(case, topic) for case in CASES if given.only in {None, case.title}]
        finally:
            stack.end()
    kept = all(row.as_promised for row in rows)
    machine = this_machine(round(time.monotonic() - began))
    show(rows, machine, as_json=given.json)
    if given.page and kept and not given.only:
        write(given.page, rows, machine, BATCHES)
    return int(not kept)


def this_machine(seconds: int) -> dict[str, Any]:
    """Returns what the figures depend on, and how long all of them took."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "memory GiB": round(memory),
        "load": round(os.getloadavg()[0], 1),
        "seconds": seconds,
    }


def show(rows: list[Row], machine: dict[str, Any], *, as_json: bool) -> None:
    """Prints one line for each guarantee, and the machine."""
    if as_json:
        print(json.dumps({"machine": machine, "crashes": list(CRASHES), "guarantees": [asdict(row) for row in rows]}))
        return
    print(f"{'guarantee':<15}{'store':<18}{'records':>9}{'crashes':>9}{'lost':>8}{'doubled':>9}{'rows/s':>8}")
    for row in rows:
        mark = "" if row.as_promised else "  NOT as promised"
        counts = f"{row.records:>9}{row.crashes:>9}{row.lost:>8}{row.doubled:>9}{row.rows_per_second or '-':>8}"
        print(f"{row.guarantee:<15}{row.store:<18}{counts}{mark}")
    print(json.dumps(machine))


if __name__ == "__main__":
    sys.exit(main())
