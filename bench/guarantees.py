"""Compares all guarantees on one topic with the same crashes, and then each store with the topic, record by record.

Usage: guarantees.py [--records 20000] [--only "at least once"] [--json]. Exits 1 when a guarantee that promises each
record once has lost or doubled one. Exits 1, too, when at least once was not seen to double, or at most once not to
lose.
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

from lockstep.cli.batches.running import shown_progress
from stack import TOPIC, Stack

if TYPE_CHECKING:
    from collections.abc import Callable

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
    """A guarantee, the place of its results, and the cost of the crashes: nothing, rows doubled, or rows lost."""

    title: str
    guarantee: str
    store: str | None
    cost: str = "nothing"

    @property
    def name(self) -> str:
        """Returns the pipeline's name."""
        return self.title.replace(" ", "_")


CASES = (
    Case("per batch", "PerBatch()", None),
    Case("per partition", "PerPartition()", None),
    Case("idempotent", "Idempotent()", "WAREHOUSE"),
    Case("at least once", "AtLeastOnce()", "WAREHOUSE", "doubled"),
    Case("at most once", "AtMostOnce()", "WAREHOUSE", "lost"),
)
# Each is struck at the first of these points that it reaches. That point makes the difference.
CRASHES = {
    "everything is validated": ("validate.after",),
    "one of the two has moved": ("commit.published", "deliver.done", "commit.done_unacknowledged"),
    "both have moved": ("announce.before",),
}


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one guarantee.

    Its pace is that of the batches after the last crash, except for the first of them.
    """

    guarantee: str
    store: str
    records: int
    crashes: int
    lost: int
    doubled: int
    rows_per_second: int | None
    as_promised: bool


@dataclass(frozen=True, slots=True)
class Bench:
    """The guarantees on one stack, over one topic."""

    stack: Stack
    records: int
    say: Callable[[str], None]

    def suffer(self, case: Case, topic: Counter[tuple[int, int]]) -> Row:
        """Runs every crash, then a run to the end, and then compares the store with the topic."""
        self._define(case)
        self.stack.call("migrate", case.name)
        crashes = 0
        for moment, points in CRASHES.items():
            self.say(f"{case.title}: killed when {moment}")
            crashes += self._killed(case, points)
        self.say(f"{case.title}: to the end")
        done = json.loads(self.stack.call("run", case.name, "--until-idle", "--json"))
        self.say(f"{case.title}: {case.store or 'the ledger'} against the topic")
        rows = self._rows(case)
        lost, doubled = (topic - rows).total(), (rows - topic).total()
        costs = {"lost": lost, "doubled": doubled}
        as_promised = all(bool(costs[cost]) == (cost == case.cost) for cost in costs)
        behind = done["batches"][1:]
        seconds = sum(sum(filter(None, batch["seconds"].values())) for batch in behind)
        pace = round(sum(batch["rows_written"] for batch in behind) / seconds) if behind else None
        store = (case.store or "the ledger's").lower()
        return Row(case.title, store, topic.total(), crashes, lost, doubled, pace, as_promised)

    def _killed(self, case: Case, points: tuple[str, ...]) -> int:
        """Starts a `lockstep run` that kills itself and its JVM by SIGKILL at the first of the points.

        Returns 1 when it reached one.
        """
        armed = self.stack.home / "armed"
        armed.touch()
        fault = " ".join(f"{point}=group@{armed}" for point in points)
        self.stack.call("run", case.name, fault=fault)
        reached = not armed.exists()
        armed.unlink(missing_ok=True)
        return int(reached)

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
            "topic": TOPIC,
            "batch": self.records // BATCHES,
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
    options.add_argument("--json", action="store_true")
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
    show(rows, round(time.monotonic() - began), as_json=given.json)
    return int(not all(row.as_promised for row in rows))


def show(rows: list[Row], seconds: int, *, as_json: bool) -> None:
    """Prints one line for each guarantee, and the machine."""
    where: dict[str, Any] = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "seconds": seconds,
    }
    if as_json:
        print(json.dumps({"machine": where, "crashes": list(CRASHES), "guarantees": [asdict(row) for row in rows]}))
        return
    print(f"{'guarantee':<15}{'store':<15}{'records':>9}{'crashes':>9}{'lost':>8}{'doubled':>9}{'rows/s':>8}")
    for row in rows:
        mark = "" if row.as_promised else "  NOT as promised"
        counts = f"{row.records:>9}{row.crashes:>9}{row.lost:>8}{row.doubled:>9}{row.rows_per_second or '-':>8}"
        print(f"{row.guarantee:<15}{row.store:<15}{counts}{mark}")
    print(json.dumps(where))


if __name__ == "__main__":
    sys.exit(main())
