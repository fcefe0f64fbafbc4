"""Compares PerBatch behind a view with PerBatch as it is and with PerPartition, in turns, by CPU time, WAL and seconds.

All have the same topic and a table of the same shape. It also measures what a view costs its readers.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg2

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import connect
from lockstep.ledger.migrate import migrate_target
from peers.one_run import asked_one, cost_of_run, costs_in_turns, options_of_rounds, ratios_of_rounds, show_costs
from peers.servers import servers
from per_partition import DEFINITION, TOPIC, produce

if TYPE_CHECKING:
    from pathlib import Path

    from peers.contender import Place
    from peers.one_run import Cost

# `_batch` stands first: Postgres reads a row from its first column on, and the view compares `_batch` of each row.
TARGET = """create table public.{name} (_batch int8 not null, _offset int8 not null, _stream int4 not null,
    _ordinal int4 not null, id text, n bigint, amount numeric(12,2), at timestamptz,
    primary key (_stream, _offset, _ordinal));"""
WAYS = {"per batch": ("PerBatch", ""), "per partition": ("PerPartition", ""), "written once": ("PerBatch", "_rows")}
ONCE = "written once"
LOOKS = 200  # rows that are looked up by their key
PREPARED = "prepare looked (int4, int8) as select * from {table} where _stream = $1 and _offset = $2"
READERS = {  # what a reader asks: of all rows, and of a row by its key, by a statement that is planned each time or once
    "scan": "select count(*), sum(n) from {table}",
    "look": "select * from {table} where _stream = %s and _offset = %s",
    "look, prepared": "execute looked (%s, %s)",
}


def cost(place: Place, folder: Path, way: str, number: int, records: int, *, topic: str = TOPIC, of: str = "") -> Cost:
    """Returns the cost of the whole topic into an empty table, by a warm session. Keeps the table of round 1."""
    guarantee, behind = WAYS[way]
    name = f"{way.replace(' ', '_')}_{of or number}"
    (folder / name).mkdir()
    text = DEFINITION.format(name=name, guarantee=guarantee).replace(TOPIC, topic)
    (folder / name / "__init__.py").write_text(text)
    (folder / name / "target.sql").write_text(TARGET.format(name=name + behind))
    loaded = load(name)
    with closing(connect(place.dsn)) as conn:
        migrate_target(conn, loaded)

    def look(cur: Any, _at: object) -> None:
        found = asked_one(cur, f"select count(distinct (_stream, _offset)) from public.{name}")
        if found != records:
            raise SystemExit(f"{name}: {found} records have a row, and {records} were produced")
        if number != 1:
            kind = "view" if behind else "table"
            cur.execute(f"drop {kind} public.{name}" + (f"; drop table public.{name}{behind}" if behind else ""))

    return cost_of_run(place, loaded, records, look)


def readers(place: Place, records: int) -> dict[str, list[float]]:
    """Returns, for each kind of question, the view's times to the table's: without and with a batch hidden."""
    found: dict[str, list[float]] = {}
    name = f"{ONCE.replace(' ', '_')}_1"
    with closing(psycopg2.connect(place.superuser_dsn)) as conn, conn.cursor() as cur:
        conn.autocommit = True
        cur.execute(f"vacuum analyze public.{name}_rows")
        for is_hidden in (False, True):
            if is_hidden:
                cur.execute("set session_replication_role = replica")  # a batch that nobody plans
                cur.execute("insert into lockstep.hidden_batch values (9999, %s)", (f"public.{name}_rows",))
            for kind, query in READERS.items():
                pairs = [
                    _seconds(cur, kind, query, f"public.{name}", records)
                    / _seconds(cur, kind, query, f"public.{name}_rows", records)
                    for _ in range(7)
                ]
                found[f"{kind}, {'one batch' if is_hidden else 'nothing'} hidden"] = pairs
    return found


def _seconds(cur: Any, kind: str, query: str, table: str, records: int) -> float:
    if kind == "look, prepared":
        cur.execute("deallocate all; " + PREPARED.format(table=table))
    query = query.format(table=table)
    begin = time.perf_counter()
    for number in range(1 if kind == "scan" else LOOKS):
        cur.execute(query, None if kind == "scan" else (1, number * records // LOOKS // 4))
        cur.fetchall()
    return time.perf_counter() - begin


def main() -> int:
    """Prints each way's medians, and the medians of the same rounds' ratios."""
    given = options_of_rounds(__doc__).parse_args()
    with servers() as place:
        pipelines = place.home / "pipelines"
        pipelines.mkdir()
        os.environ["LOCKSTEP_PIPELINES"] = str(pipelines)
        produce(place.bootstrap, given.records, given.partitions)
        costs = costs_in_turns(
            [*WAYS], given.rounds, lambda way, number: cost(place, pipelines, way, number, given.records)
        )
        asked = readers(place, given.records)
    show_costs(costs, given.records)
    for other in WAYS:
        if other != ONCE:
            for part, pairs in ratios_of_rounds(costs[ONCE], costs[other]):
                print(f"{ONCE} : {other:<14}{part:<8} {statistics.median(pairs):.2f}   {[round(p, 2) for p in pairs]}")
    for what, pairs in asked.items():
        print(f"view : table   {what:<32}{statistics.median(pairs):.2f}   {[round(p, 2) for p in pairs]}")
    print(f"load {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
