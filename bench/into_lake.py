"""Compares appends to the lake with PerBatch appends to Postgres, and both in one pipeline, in turns, over one topic.

It also measures a small warm batch, and the preparation of a move at many files and snapshots.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from lockstep.adapters.folders import load
from lockstep.adapters.iceberg.schema import make_table
from lockstep.adapters.iceberg.table import LakeTable
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import connect
from lockstep.core.lake.files import prefix_of
from lockstep.core.pipeline.columns import parse_columns
from lockstep.core.planning.decisions import Caller
from lockstep.core.planning.routes import Route, Way
from lockstep.engine.chosen import engine_of
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.run import run
from lockstep.steps.context import Context
from lockstep.steps.lake.open_tables import make_tables, open_tables
from peers.one_run import asked_one, cost_of_run, costs_in_turns, options_of_rounds, ratios_of_rounds, show_costs
from peers.plain_parquet import plain_parquet
from peers.servers import servers
from per_partition import TARGET, TOPIC, produce

HERE = Route(Way.PROCESS, "it is measured")

if TYPE_CHECKING:
    from peers.contender import Place
    from peers.one_run import Cost

DEFINITION = """from lockstep import Append, Iceberg, Json, Limits, Pipeline
P = Pipeline(name="{name}", topic="bench.v1", limits=Limits(records={limit}), start="earliest",
    format=Json("id string, n bigint, amount decimal(12,2), at timestamp"), target={target})
"""
WAYS = {
    "postgres": 'Append("public.{name}")',
    "lake": 'Append(Iceberg("bench.{name}"))',
    "both": '(Append("public.{name}"), Append(Iceberg("bench.{name}")))',
}
PLAIN = "plain Parquet"
SMALL = 1_000
SMALL_RUNS = 7


def pipeline_of(place: Place, way: str, number: int | str, limit: int) -> Any:
    """Returns the folder of a new pipeline, with its tables made."""
    name = f"{way}_{number}"
    folder = place.home / "pipelines" / name
    folder.mkdir()
    text = DEFINITION.format(name=name, limit=limit, target=WAYS[way].format(name=name))
    (folder / "__init__.py").write_text(text)
    if way != "lake":
        (folder / "target.sql").write_text(TARGET.format(name=name))
    loaded = load(name)
    with closing(connect(place.dsn)) as conn:
        migrate_target(conn, loaded)
        columns = [loaded.pipeline.columns] * len(loaded.pipeline.targets)
        make_tables(conn, loaded.pipeline, f"file://{place.home}/lake", columns)
    return loaded


def cost(place: Place, way: str, number: int, records: int) -> Cost:
    """Returns the cost of the whole topic into empty tables, by a warm session."""
    loaded = pipeline_of(place, way, number, 100_000_000)

    def look(cur: Any, at: Context) -> None:
        if way != "lake":
            query = f"select count(distinct (_stream, _offset)) from public.{way}_{number}"
            require(way, asked_one(cur, query), records)
            cur.execute(f"drop table public.{way}_{number}")
        for table in open_tables(at.conn, loaded.pipeline).values():
            require(way, sum(rows for _, rows, _ in table.files()), records)

    return cost_of_run(place, loaded, records, look)


def require(way: str, found: int, records: int) -> None:
    """Ends the bench if rows are missing or doubled."""
    if found != records:
        raise SystemExit(f"{way}: {found} rows are there, and {records} records were produced")


def small(place: Place, way: str) -> list[float]:
    """Returns the seconds of batches of a thousand records, by a warm process that starts no JVM."""
    loaded = pipeline_of(place, way, "small", SMALL)

    def no_spark() -> None:
        raise SystemExit(f"{way}: a small batch started Spark")

    with closing(Context(place.dsn, Broker(place.bootstrap))) as at:
        engine = engine_of(loaded, at.broker, at.dsn, lambda: None, HERE, no_spark)
        took = []
        for _ in range(SMALL_RUNS + 1):
            begin = time.perf_counter()
            run(at, engine, loaded, Caller("bench"))
            took.append(time.perf_counter() - begin)
    return took[1:]  # the first one warms up


def prepared(place: Place, files: int, snapshots: int) -> list[float]:
    """Returns the CPU seconds of preparing one more file, for a table with so many files and snapshots."""
    table = LakeTable("lockstep.bench.many", make_table(f"file://{place.home}/many", parse_columns("id string")))
    prefix = prefix_of(table.location, 1, 1)
    rows = [{"_stream": 1, "_offset": 1, "_ordinal": 0, "_batch": 1, "id": "a"}]
    first = f"{prefix}/one.parquet"
    table.write(first, pa.Table.from_pylist(rows, schema=table.arrow_schema))
    one, paths = Path(first.removeprefix("file://")), []
    for number in range(files):
        one.with_name(f"{number}.parquet").hardlink_to(one)
        paths.append(f"{prefix}/{number}.parquet")
    table = LakeTable(table.name, table.prepare(str(uuid4()), paths, (), prefix, {}).after)
    table = LakeTable(table.name, with_snapshots(table.address, snapshots))
    took = []
    for _ in range(5):
        begin = time.process_time()
        LakeTable(table.name, table.address).prepare(str(uuid4()), [first], (), prefix, {})
        took.append(time.process_time() - begin)
    return took


def with_snapshots(address: str, count: int) -> str:
    """Returns the address of metadata with so many snapshots before the current one, each with the same files."""
    file = Path(address.removeprefix("file://"))
    document = json.loads(file.read_text())
    (newest,) = document["snapshots"]
    older = []
    for number in range(1, count):
        parent = {"parent-snapshot-id": number - 1} if number > 1 else {}
        its = {key: value for key, value in newest.items() if key != "parent-snapshot-id"}
        older.append(its | {"snapshot-id": number, "sequence-number": 0} | parent)
    document["snapshots"] = [*older, newest | ({"parent-snapshot-id": count - 1} if older else {})]
    other = file.with_name(f"00009-{uuid4()}.metadata.json")
    other.write_text(json.dumps(document))
    return f"file://{other}"


def main() -> int:
    """Prints each way's medians, the medians of the same rounds' ratios, and the small measures."""
    options = options_of_rounds(__doc__, rounds=3)
    options.add_argument("--files", type=int, default=10_000)
    given = options.parse_args()
    with servers() as place:
        (place.home / "pipelines").mkdir()
        os.environ["LOCKSTEP_PIPELINES"] = str(place.home / "pipelines")
        produce(place.bootstrap, given.records, given.partitions)
        plain = pipeline_of(place, "lake", "plain", 100_000_000)

        def one(way: str, number: int) -> Cost:
            if way == PLAIN:
                return plain_parquet(place, plain, TOPIC, place.home / "plain" / str(number), given.partitions)
            return cost(place, way, number, given.records)

        costs = costs_in_turns([*WAYS, PLAIN], given.rounds, one)
        smalls = {way: small(place, way) for way in WAYS}
        many = prepared(place, given.files, given.files)
    show_costs(costs, given.records)
    for way, other in (("postgres", "lake"), ("both", "postgres"), (PLAIN, "lake")):
        pairs = dict(ratios_of_rounds(costs[way], costs[other]))["seconds"]
        print(f"seconds of {way} : {other:<10} {statistics.median(pairs):.2f}   {[round(p, 2) for p in pairs]}")
    for way, took in smalls.items():
        print(f"{way:<10}{SMALL} records, warm: {statistics.median(took):.3f} s   {[round(one, 3) for one in took]}")
    each_time = [round(one, 3) for one in many]
    print(f"prepare at {given.files:,} files and snapshots: {statistics.median(many):.3f} s of CPU time   {each_time}")
    print(f"load {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
