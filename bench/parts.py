"""Compares a table by batch whose ranges become parts with one that takes staged rows, in turns.

It measures CPU time, WAL and seconds.
"""

from __future__ import annotations

import os
import statistics
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import connect
from lockstep.ledger.migrate import migrate_target
from lockstep.targets.table import parts
from peers.one_run import asked_one, cost_of_run, costs_in_turns, options_of_rounds, ratios_of_rounds, show_costs
from peers.servers import servers
from per_partition import DEFINITION, TARGET, produce

if TYPE_CHECKING:
    from pathlib import Path

    from peers.contender import Place
    from peers.one_run import Cost

BY_BATCH = TARGET.replace("_ordinal));", "_ordinal, _batch)) partition by list (_batch);")
LEAST = {"staged": sys.maxsize, "parts": parts.LEAST_OFFSETS}  # offsets of a batch whose ranges become parts


def cost(place: Place, folder: Path, way: str, number: int, records: int) -> Cost:
    """Returns the cost of the whole topic into an empty table, by a warm session. Every record is compared by its number."""
    name = f"{way}_{number}"
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(DEFINITION.format(name=name, guarantee="PerBatch"))
    (folder / name / "target.sql").write_text(BY_BATCH.format(name=name))
    loaded = load(name)
    parts.LEAST_OFFSETS = LEAST[way]
    with closing(connect(place.dsn)) as conn:
        migrate_target(conn, loaded)

    def look(cur: Any, _at: object) -> None:
        found = asked_one(cur, f"select count(distinct n) filter (where id = 'record-' || n) from public.{name}")
        tables = asked_one(cur, f"select count(*) from pg_partition_tree('public.{name}') where isleaf")
        if found != records or (tables > 1) != (way == "parts"):
            raise SystemExit(f"{name}: {found} of {records} records have their row, in {tables} tables")
        cur.execute(f"drop table public.{name}")

    return cost_of_run(place, loaded, records, look)


def main() -> int:
    """Prints each way's medians, and the medians of the same rounds' ratios."""
    given = options_of_rounds(__doc__).parse_args()
    with servers() as place:
        pipelines = place.home / "pipelines"
        pipelines.mkdir()
        os.environ["LOCKSTEP_PIPELINES"] = str(pipelines)
        produce(place.bootstrap, given.records, given.partitions)
        costs = costs_in_turns(
            [*LEAST], given.rounds, lambda way, number: cost(place, pipelines, way, number, given.records)
        )
    show_costs(costs, given.records)
    for part, pairs in ratios_of_rounds(costs["parts"], costs["staged"]):
        print(f"parts : staged   {part:<8} {statistics.median(pairs):.2f}   {[round(p, 2) for p in pairs]}")
    print(f"load {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
