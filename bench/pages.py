"""Measures every page through the real app, on a ledger of many batches over many partitions.

A second pipeline has a feed, windows and late records.

Usage: pages.py [--streams 1000] [--narrow 99750] [--wide 250] [--sets 100000] [--minutes 10000] [--late 100000]
    [--rounds 15] [--json]
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import statistics
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psycopg2

from lockstep.adapters.folders import load
from lockstep.adapters.kafka import broker as kafka
from lockstep.adapters.postgres import connect
from lockstep.dev.servers import postgres
from lockstep.ledger.migrate import migrate, migrate_target
from lockstep.steps.feed import look_at_relay
from one_record import StillLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lockstep.core.offsets import TopicView

LIMIT = 300.0  # milliseconds
REST = 0.3  # seconds, until the last backends have ended
DEFINITION = """from lockstep.core.pipeline.definition import Json, Pipeline, Upsert
BENCH = Pipeline("bench", "bench.v1", Json("id string", key="id"), Upsert("public.bench", key=("id",)))
"""
TARGET = """create table if not exists public.bench (id text primary key, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null)"""


TIMED = """from lockstep.core.pipeline.definition import Count, EventTime, Feed, Json, Pipeline, Topic, Tumbling, Windows
BENCH = Pipeline(
    "bench_time", "time.v1", Json("id string, at timestamp"),
    Windows("public.by_minute", window=Tumbling("1 minute"), key=("id",), totals=(Count("records"),), lateness="1 day",
        feed=Feed(to=Topic("by-minute.v1"))),
    event_time=EventTime("at"),
)
"""
TIMED_TARGET = """create table if not exists public.by_minute (window_start timestamptz, window_end timestamptz not null,
    id text, records bigint, _revision int not null, _stream int4 not null, _offset int8 not null, _ordinal int4 not null,
    _batch int8 not null, primary key (window_start, id))"""


@dataclass
class StillBroker(StillLog):
    """A broker that answers the pages at once, so that only the server's work is measured."""

    def retention(self, _topic: str) -> timedelta | None:
        """Returns a week."""
        return timedelta(days=7)

    def high_ends(self, view: TopicView) -> dict[int, int]:
        """Returns the ends, as if no transaction were open."""
        return {p: bounds.stable_end for p, bounds in view.bounds.items()}

    def first_times(self, _topic: str, at: dict[int, int], *, committed: bool = True) -> dict[int, datetime]:  # type: ignore[override]
        """Returns the current time for all."""
        return dict.fromkeys(at, datetime.now(UTC)) if committed else {}

    def records(self, _topic: str, _partition: int, begin: int, _end: int, *, most: int) -> Iterator[Any]:  # type: ignore[override]  # noqa: ARG002 - the broker's signature
        """Yields one small record."""
        yield SimpleNamespace(
            offset=lambda: begin,
            timestamp=lambda: (1, 1_767_225_600_000),
            key=lambda: b"k",
            value=lambda: b'{"id": "k"}',
            headers=list,
        )


def main() -> int:
    """Prints median and worst of each page. Returns 1 when a median is above the limit."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--streams", type=int, default=1_000)
    options.add_argument("--narrow", type=int, default=99_750, help="batches over eight streams each")
    options.add_argument("--wide", type=int, default=250, help="batches over all streams, the newest ones")
    options.add_argument("--sets", type=int, default=100_000, help="change sets of ten changes each")
    options.add_argument("--minutes", type=int, default=10_000, help="windows of a minute with a hundred keys each")
    options.add_argument("--late", type=int, default=100_000, help="late rows")
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="lockstep-pages-") as folder:
        home = Path(folder)
        try:
            server = postgres.start(home / "postgres")
            dsn = fill(home, server, given)
            rows = measure(home, dsn, given)
            where = machine(dsn)
        finally:
            postgres.remove_server(home / "postgres")
    if given.json:
        print(json.dumps({"machine": where, "rounds": given.rounds, "limit_ms": LIMIT, "figures": rows}))
    else:
        print(json.dumps(where))
        print(f"{'page':<44}{'first ms':>10}{'median ms':>11}{'worst ms':>10}{'cpu ms':>9}{'kB':>8}")
        for row in rows:
            mark = "  too slow" if row["median_ms"] > LIMIT else ""
            print(
                f"{row['page']:<44}{row['first_ms']:>10}{row['median_ms']:>11}{row['worst_ms']:>10}{row['cpu_ms']:>9}{row['kb']:>8}{mark}"
            )
    return int(any(row["median_ms"] > LIMIT for row in rows))


def fill(home: Path, server: postgres.Server, given: argparse.Namespace) -> str:
    """Makes a database with such a ledger, analyzed, and the pipeline's folder. Returns its DSN."""
    for name, definition, target in (("bench", DEFINITION, TARGET), ("bench_time", TIMED, TIMED_TARGET)):
        folder = home / "pipelines" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(definition)
        (folder / "target.sql").write_text(target)
    os.environ["LOCKSTEP_PIPELINES"] = str(folder.parent)
    superuser, dsn = (re.sub(r"/\w+$", "/bench_pages", at) for at in (server.superuser_dsn, server.dsn))
    with closing(psycopg2.connect(server.superuser_dsn)) as admin:
        admin.autocommit = True
        admin.cursor().execute("create database bench_pages owner lockstep")
    bench, timed = load("bench"), load("bench_time")
    with closing(connect(dsn)) as conn:
        migrate(conn)
        migrate_target(conn, bench)
        migrate_target(conn, timed)
    facts = {"streams": given.streams, "narrow": given.narrow, "wide": given.wide}
    facts |= {"definition_hash": bench.content_hash(), "document": json.dumps(bench.document())}
    facts |= {"sets": given.sets, "minutes": given.minutes, "late": given.late}
    facts |= {"timed_hash": timed.content_hash(), "timed": json.dumps(timed.document())}
    with closing(psycopg2.connect(superuser)) as conn, conn, conn.cursor() as cur:
        for name in ("streams", "history", "feed", "windows"):
            cur.execute(statements()[name], facts)
    with closing(psycopg2.connect(superuser)) as conn:
        conn.autocommit = True
        conn.cursor().execute("vacuum analyze")
    return dsn


def statements() -> dict[str, str]:
    """Returns the statements beside this file, by name."""
    parts = re.split(r"^-- name: (\w+)\n", Path(__file__).with_suffix(".sql").read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def measure(home: Path, dsn: str, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Requests every page once, and then so many times.

    Returns milliseconds from question to answer, and of processors.
    """
    get, clock = served(home, dsn, given), Processors(dsn)
    rows = []
    for name, path in pages_of(given).items():
        first, size = timed(get, path)
        time.sleep(REST)
        begin = clock.seconds()
        took = [timed(get, path)[0] for _ in range(given.rounds)]
        time.sleep(REST)
        rows.append(
            {
                "page": name,
                "first_ms": round(first, 1),
                "median_ms": round(statistics.median(took), 1),
                "worst_ms": round(max(took), 1),
                "cpu_ms": round((clock.seconds() - begin) * 1000 / given.rounds, 1),
                "kb": round(size / 1024),
            }
        )
    return rows


class Processors:
    """The CPU time of this process and of the backends of its connections, once they are closed.

    Other work on a busy machine adds nothing to it.
    """

    def __init__(self, dsn: str) -> None:
        with closing(psycopg2.connect(dsn)) as conn:
            backend = Path(f"/proc/{conn.info.backend_pid}/stat").read_text()
        self._server = Path(f"/proc/{backend.rpartition(')')[2].split()[1]}/stat")

    def seconds(self) -> float:
        """Returns user and system time so far."""
        children = self._server.read_text().rpartition(")")[2].split()[13:15]
        return time.process_time() + sum(map(int, children)) / os.sysconf("SC_CLK_TCK")


def served(home: Path, dsn: str, given: argparse.Namespace) -> Callable[[str], Any]:
    """Returns the app as Airflow serves it to a user who may read the DAG. Leaves out Airflow's own access check."""
    os.environ |= {"AIRFLOW_HOME": str(home / "airflow"), "LOCKSTEP_DSN": dsn, "LOCKSTEP_KAFKA": "nowhere:9092"}
    end = (given.narrow // (given.streams // 8) + given.wide) * 100 + 50
    still = StillBroker(dict.fromkeys(range(given.streams), end))
    kafka.Broker = lambda *_: still  # type: ignore[assignment,misc]  # there is no broker to ask
    sent = (given.sets - 1_000) * 10
    look_at_relay.mirrored = lambda *asked: dict.fromkeys(asked[2], sent)  # nor the cursor of a relay
    from fastapi.testclient import TestClient  # noqa: PLC0415 - Airflow reads its home when it is imported

    from lockstep.web.app import pages_app  # noqa: PLC0415 - the same

    logging.disable(logging.INFO)
    made = pages_app()
    readable = SimpleNamespace(value={"bench", "bench_history", "bench_time"})
    for route in made.routes:
        for guard in route.dependant.dependencies if hasattr(route, "dependant") else ():
            answer = readable if guard.call.__name__ == "depends_permitted_dags_filter" else None
            made.dependency_overrides[guard.call] = lambda answer=answer: answer
    return TestClient(made, follow_redirects=False).get


def pages_of(given: argparse.Namespace) -> dict[str, str]:
    """Returns the address of each page, by its name."""
    timed, middle = "/dags/bench_time", given.sets // 2
    at, wide, place = "/dags/bench", given.narrow + 1, given.narrow // (given.streams // 8) * 100
    return {
        "pipelines": "/",
        "coverage, 40 partitions whole": f"{at}/coverage",
        "coverage, the last 40 by age": f"{at}/coverage?first={given.streams - 40}&colour=age",
        "coverage, a stretch of 50 batches": f"{at}/coverage?from={place}&until={place + 5_000}",
        "coverage, each its own scale": f"{at}/coverage?scale=own",
        "coverage, along time": f"{at}/coverage?along=time",
        "batches, the newest": f"{at}/batches",
        "batches, in the middle": f"{at}/batches?before={given.narrow // 2}",
        "batches, of a lane": f"{at}/batches?lane=replay",
        "batches, in a state that none is in": f"{at}/batches?state=abandoned",
        "batches, of a run of the history": f"{at}_history/batches?run=backfill__1",
        "batch over all partitions": f"{at}/batches/{wide}",
        "batch over eight": f"{at}/batches/{given.narrow // 2 + 1}",
        "record by its offset": f"{at}/record?partition=5&offset={place // 2}",
        "record by its key": f"{at}/record?key=id-1-0",
        "feed, the newest sets": f"{timed}/feed",
        "feed, in the middle": f"{timed}/feed?before={middle}",
        "change set": f"{timed}/feed/{middle}",
        "time, 24 windows": f"{timed}/time",
        "time, 500 windows": f"{timed}/time?last=500",
        "late, the newest": f"{timed}/late",
        "late, in the middle": f"{timed}/late?before={10_000_001 + given.late // 2_000}.0.{given.late // 2}.0.0",
        "a live run's tab": f"{at}/runs/scheduled__{wide}",
        "a history run's tab": f"{at}_history/runs/backfill__1",
    }


def timed(get: Callable[[str], Any], path: str) -> tuple[float, int]:
    """Returns milliseconds and bytes of one answer. A page that is refused ends the bench."""
    begin = time.perf_counter()
    answer = get(path)
    took = (time.perf_counter() - begin) * 1000
    if answer.status_code not in {200, 307}:
        raise SystemExit(f"{path}: {answer.status_code} {answer.text[-500:]}")
    return took, len(answer.content)


def machine(dsn: str) -> dict[str, Any]:
    """Describes the machine and the size of the ledger."""
    with closing(psycopg2.connect(dsn)) as conn, conn.cursor() as cur:
        cur.execute("select count(*), pg_size_pretty(pg_database_size(current_database())) from lockstep.coverage")
        segments, size = cur.fetchone() or (0, "")
        server = conn.server_version // 10_000
    load = round(os.getloadavg()[0], 1)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return {"at": at, "cores": os.cpu_count(), "load": load, "postgres": server, "segments": segments, "size": size}


if __name__ == "__main__":
    sys.exit(main())
