"""Measures the cost of a large keyed table: a question of lineage, and a replay of 1,000 records, in turns with a small one.

Usage: table_growth.py [--rows 10000000] [--small 100000] [--rounds 9] [--without-index]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import READER, TARGETS_ROLE, connect, transaction
from lockstep.context.systems import engine_for
from lockstep.core.changes.person import Person
from lockstep.core.planning.bounds import parse_bound
from lockstep.core.planning.decisions import Caller
from lockstep.core.states import Lane
from lockstep.ledger.admin.origin_index import ENDING
from lockstep.ledger.migrate import migrate_target
from lockstep.ledger.views import tracing
from lockstep.steps.batch.run import run, until_idle
from lockstep.steps.context import Context
from lockstep.steps.requests import requests
from per_partition import on_servers, produce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PARTITIONS, BATCHES, REPLAYED = 4, 5, 1_000
ME, CALLER = Person("bench", "to measure"), Caller("bench")
DEFINITION = """from lockstep.core.pipeline.definition import Json, Limits, Pipeline, Upsert
P = Pipeline("{name}", "bench.v1", Json("id string, n bigint, amount decimal(12,2), at timestamp", key="id"),
    Upsert("public.{name}", key=("id",)), limits=Limits(records={records}))
"""
TARGET = """create table public.{name} (id text primary key, n bigint, amount numeric(12,2), at timestamptz,
    _stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null);"""
# Rows as a year of batches would have left them: of the same streams, and spread over the table.
FILL = """insert into public.{name} select 'other-' || i, i, i % 1000, now(),
    ((select array_agg(stream_id order by stream_id) from lockstep.stream where pipeline = '{name}'))[1 + i % {partitions}],
    1000000 + i, 0, 1 from generate_series(1, {rows}) i"""
LIMIT = 3.0


def main() -> int:
    """Prints both medians and their ratio. Returns 1 when the large table takes three times as long, or longer."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--rows", type=int, default=10_000_000, help="of the large table")
    options.add_argument("--small", type=int, default=100_000)
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--without-index", action="store_true", help="as a table was before 0.2")
    given = options.parse_args()
    sizes = {"small": given.small, "large": given.rows}
    took: dict[tuple[str, str], list[float]] = {}
    with on_servers() as (dsn, bootstrap, pipelines):
        produce(bootstrap, BATCHES * REPLAYED, PARTITIONS)
        for name, rows in sizes.items():
            (pipelines / name).mkdir()
            (pipelines / name / "__init__.py").write_text(DEFINITION.format(name=name, records=REPLAYED))
            (pipelines / name / "target.sql").write_text(TARGET.format(name=name))
            _filled(dsn, bootstrap, name, rows, without_index=given.without_index)
        for number in range(given.rounds + 1):
            for name in sizes if number % 2 else reversed(sizes):
                for what, act in (("lineage", _lineage), ("replay", _replay)):
                    one = _seconds(dsn, bootstrap, name, act)
                    took.setdefault((what, name), []).extend([one] if number else [])  # the first round warms up
    return _show(took, sizes)


def _filled(dsn: str, bootstrap: str, name: str, rows: int, *, without_index: bool) -> None:
    folder = load(name)
    with closing(Context(dsn, Broker(bootstrap))) as at:
        migrate_target(at.conn, folder)
        while run(at, engine_for(folder, at), folder, CALLER).went_on:
            pass
    with closing(connect(dsn)) as conn:
        with transaction(conn, TARGETS_ROLE) as cur:
            cur.execute("reset role")
            cur.execute("set local statement_timeout = 0")
            cur.execute(FILL.format(name=name, rows=rows, partitions=PARTITIONS))
            if without_index:
                cur.execute(f"drop index public.{name}{ENDING}")
        conn.autocommit = True
        with conn.cursor() as cur:
            cur.execute(f"set role {TARGETS_ROLE}")
            cur.execute(f"vacuum analyze public.{name}")


def _lineage(at: Context, name: str) -> None:
    with transaction(at.conn, READER) as cur:
        found = tracing.outcome_of_record(cur, load(name).pipeline, 1, 7)
    if len(found["rows"]) != 1:
        raise SystemExit(f"lineage finds {found}")


def _replay(at: Context, name: str) -> None:
    """Replays the first batch's 1,000 records."""
    folder, now = load(name), datetime.now(UTC)
    begin, until = (
        parse_bound(",".join(f"{p}:{o}" for p in range(PARTITIONS)), "") for o in (0, REPLAYED // PARTITIONS)
    )
    wanted = requests.NewRequest(Lane.REPLAY, begin, until)
    asked = requests.open_request(at.conn, at.broker, folder, wanted, ME, now)
    if asked is None:
        raise SystemExit("nothing is replayed")
    done = list(until_idle(at, engine_for(folder, at), folder, CALLER, 1, request_id=asked.request_id))
    written = sum(row.written for report in done for row in report.ranges)
    if written != REPLAYED:
        raise SystemExit(f"{written} records were replayed")


def _seconds(dsn: str, bootstrap: str, name: str, act: Callable[[Context, str], None]) -> float:
    with closing(Context(dsn, Broker(bootstrap))) as at:
        at.conn.rollback()
        begin = time.perf_counter()
        act(at, name)
        return time.perf_counter() - begin


def _show(took: dict[tuple[str, str], list[float]], sizes: dict[str, int]) -> int:
    worst = 0.0
    for what in ("lineage", "replay"):
        small, large = (statistics.median(took[what, name]) for name in sizes)
        ratios = list(_ratios(took[what, "small"], took[what, "large"]))
        ratio = statistics.median(ratios)
        worst = max(worst, ratio)
        told = "   ".join(
            f"{rows:,} rows {s * 1000:.1f} ms" for rows, s in zip(sizes.values(), (small, large), strict=True)
        )
        print(f"{what:<8} {told}   ratio {ratio:.2f}   {[round(r, 2) for r in ratios]}")
    print(f"load {os.getloadavg()}")
    return int(worst > LIMIT)


def _ratios(small: list[float], large: list[float]) -> Iterator[float]:
    yield from (one / other for one, other in zip(large, small, strict=True))


if __name__ == "__main__":
    sys.exit(main())
