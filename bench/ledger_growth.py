"""Measures the cost of a long history: planning and committing on an empty ledger and on a full one, in turns.

Usage: ledger_growth.py [--streams 1000] [--depth 1000] [--rounds 21] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg2

from lockstep.adapters.postgres import connect
from lockstep.core.changes.person import Person
from lockstep.core.pipeline.definition import Append, Json, Limits, Pipeline
from lockstep.core.pipeline.folder import PipelineFolder
from lockstep.core.planning.bounds import AtBatch
from lockstep.core.planning.decisions import Caller, Start
from lockstep.core.states import Lane
from lockstep.dev.servers import postgres
from lockstep.ledger.migrate import migrate, migrate_target
from lockstep.steps.batch.announce import drop_staging
from lockstep.steps.batch.commit import commit
from lockstep.steps.batch.plan import plan
from lockstep.steps.batch.stage import stage
from lockstep.steps.batch.validate import validate
from lockstep.steps.context import Context
from lockstep.steps.requests import requests
from lockstep.steps.requests.plan_request import plan_request
from one_record import OneRecordEngine, StillLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lockstep.steps.batch.plan import Planned

SPAN = 10  # offsets of a range with one record, so that the ledger is measured and not the target
FEW = 4
TARGET = """create table public.bench (id text, _stream int4 not null, _offset int8 not null, _ordinal int4 not null,
    _batch int8 not null, primary key (_stream, _offset, _ordinal))"""
PIPELINE = Pipeline("bench", "bench.v1", Json("id string"), Append("public.bench"), limits=Limits(records=10**9))
FOLDER = PipelineFolder(PIPELINE, Path("bench"), None, None, TARGET)
CALLER, ME = Caller("bench"), Person("bench", "to measure")
LIMIT = 1.5


@dataclass
class Side:
    """One of the two ledgers, and its measurements."""

    name: str
    dsn: str
    superuser_dsn: str
    log: StillLog
    seconds: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))

    def round(self) -> None:
        """Runs live batches over few streams and over all, and the replay of both.

        It uses a new connection, as a task would.
        """
        at = Context(self.dsn, self.log)
        with closing(at):
            at.conn.cursor().execute("select 1")
            few = self._live(at, f"{FEW} of {len(self.log.ends)}", FEW)
            every = self._live(at, "all", len(self.log.ends))
            self._replay(at, f"replay of {FEW}", few)
            self._replay(at, "replay of all", every)

    def _live(self, at: Context, what: str, partitions: int) -> int:
        for p in range(partitions):
            self.log.ends[p] += SPAN
        return self._work(at, what, lambda: plan(at.conn, at.broker, FOLDER, CALLER, datetime.now(UTC)))

    def _replay(self, at: Context, what: str, batch_id: int) -> None:
        wanted = requests.NewRequest(Lane.REPLAY, AtBatch(batch_id), AtBatch(batch_id))
        with self._timed(what, "ask"):
            asked = requests.open_request(at.conn, at.broker, FOLDER, wanted, ME, datetime.now(UTC))
        request_id = asked.request_id or 0
        self._work(at, what, lambda: plan_request(at.conn, at.broker, FOLDER, request_id, CALLER))
        plan_request(at.conn, at.broker, FOLDER, request_id, CALLER)  # finds it complete and closes it

    def _work(self, at: Context, what: str, planning: Callable[[], Planned]) -> int:
        with self._timed(what, "plan"):
            planned = planning()
        if not isinstance(planned.decision, Start) or planned.batch_id is None:
            raise SystemExit(f"{self.name}, {what}: expected a start, found {planned.decision}")
        with self._timed(what, "stage"):
            attempt = stage(at, OneRecordEngine(self.dsn, PIPELINE.format.columns), FOLDER, planned.batch_id, CALLER)  # type: ignore[arg-type]
        with self._timed(what, "validate"):
            validate(at, FOLDER, attempt)
        with self._timed(what, "commit"):
            commit(at, FOLDER, attempt)
        drop_staging(at, attempt)
        return planned.batch_id

    @contextmanager
    def _timed(self, what: str, step: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.seconds[what, step].append(time.perf_counter() - begin)


def queries() -> dict[str, str]:
    """Returns the statements beside this file, by name."""
    parts = re.split(r"^-- name: (\w+)\n", Path(__file__).with_suffix(".sql").read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def make(server: postgres.Server, name: str, streams: int, depth: int) -> Side:
    """Makes a database with a ledger of this depth, analyzed."""
    superuser, dsn = (re.sub(r"/\w+$", f"/bench_{name}", at) for at in (server.superuser_dsn, server.dsn))
    with closing(psycopg2.connect(server.superuser_dsn)) as admin:
        admin.autocommit = True
        admin.cursor().execute(f"drop database if exists bench_{name} with (force)")
        admin.cursor().execute(f"create database bench_{name} owner lockstep")
    with closing(connect(dsn)) as conn:
        migrate(conn)
        migrate_target(conn, FOLDER)
    facts = {"streams": streams, "depth": depth, "definition_hash": FOLDER.content_hash()}
    with closing(psycopg2.connect(superuser)) as conn, conn, conn.cursor() as cur:
        cur.execute(queries()["streams"], facts)
        if depth:
            cur.execute(queries()["history"], facts | {"document": json.dumps(FOLDER.document())})
    side = Side(name, dsn, superuser, StillLog(dict.fromkeys(range(streams), depth * 100)))
    analyze(side)
    return side


def analyze(side: Side) -> None:
    """Analyzes the tables, as autovacuum would do some time later."""
    with closing(psycopg2.connect(side.superuser_dsn)) as conn:
        conn.autocommit = True
        conn.cursor().execute("vacuum analyze")


def figures(empty: Side, full: Side) -> list[dict[str, Any]]:
    """Returns the median milliseconds per case and step, and the median of the ratios of each round's pair."""
    found = []
    for what, step in full.seconds:
        low, high = empty.seconds[what, step], full.seconds[what, step]
        medians = {
            f"{side}_ms": round(statistics.median(all_) * 1000, 1) for side, all_ in (("empty", low), ("full", high))
        }
        ratio = statistics.median(b / a for a, b in zip(low, high, strict=True))
        found.append({"case": what, "step": step} | medians | {"ratio": round(ratio, 2)})
    return found


def machine(dsn: str) -> dict[str, Any]:
    """Describes the machine and the size of the ledger."""
    with closing(psycopg2.connect(dsn)) as conn, conn.cursor() as cur:
        cur.execute(queries()["size"])
        streams, segments, batches, size = cur.fetchone() or (0, 0, 0, "")
        server = str(conn.server_version // 10000)
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "postgres": server,
        "full": {"streams": streams, "segments": segments, "batches": batches, "size": size},
    }


def main() -> int:
    """Prints the figures. Returns 1 when a plan or commit takes too many times as long as on an empty ledger."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--streams", type=int, default=1_000)
    options.add_argument("--depth", type=int, default=1_000, help="segments of each stream in the full ledger")
    options.add_argument("--rounds", type=int, default=21)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    home = Path(tempfile.mkdtemp(prefix="lockstep-bench-"))
    try:
        server = postgres.start(home)
        sides = [make(server, "empty", given.streams, 0), make(server, "full", given.streams, given.depth)]
        for number in range(given.rounds + 1):
            for side in sides if number % 2 else reversed(sides):
                side.round()
                if not number:  # the first round fills caches, and Postgres knows tables only once they hold something
                    side.seconds.clear()
                    analyze(side)
        rows, where = figures(sides[0], sides[1]), machine(sides[1].dsn)
    finally:
        postgres.remove_server(home)
        home.rmdir()
    slow = [row for row in rows if row["step"] in {"plan", "commit"} and row["ratio"] >= LIMIT]
    if given.json:
        print(json.dumps({"machine": where, "rounds": given.rounds, "limit": LIMIT, "figures": rows}))
    else:
        print(json.dumps(where))
        print(f"{'case':<16}{'step':<10}{'empty ms':>10}{'full ms':>10}{'ratio':>8}")
        for row in rows:
            mark = "  too slow" if row in slow else ""
            print(f"{row['case']:<16}{row['step']:<10}{row['empty_ms']:>10}{row['full_ms']:>10}{row['ratio']:>8}{mark}")
    return int(bool(slow))


if __name__ == "__main__":
    sys.exit(main())
