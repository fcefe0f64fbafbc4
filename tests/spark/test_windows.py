"""Tests windows over a real log: `sales` as it stands, and the same pipeline with a transform, through Spark."""

from __future__ import annotations

import json
import re
import shutil
from collections import defaultdict
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import connect
from lockstep.core.kafka_options import KafkaOptions
from lockstep.core.planning.decisions import Caller
from lockstep.dev.catalogue import SAMPLES
from lockstep.dev.records.folding import fold_topic, same_rows
from lockstep.engine.chosen import ChosenEngine, ProcessReader
from lockstep.engine.kafka_ranges import KafkaRanges
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.run import until_idle
from lockstep.steps.feed.relay_behind import relay_behind
from lockstep.steps.proof.verify import verify
from lockstep.steps.windows.emit import emit
from support.engines import IN_PROCESS

ROWS = "select window_start, shop, sales, revenue, window_end, _revision from public.{} order by 1, 2"
LATE = """select s.partition, l."offset", l.window_start, l.row from lockstep.late l join lockstep.stream s using (stream_id)
    where l.target = 'public.{}' order by 1, 2"""
WAYS = "select distinct route ->> 'way' from lockstep.attempt"
EACH = 4_000


@pytest.fixture
def sales(example, topic):
    """Returns the example on topics of its own, with its topic's name and that of its windows."""
    sink = topic(partitions=4)
    loaded, source = example("sales", **{"sales.by-hour.v1": sink})
    return loaded, source, sink


def through_spark(loaded):
    """Returns the same pipeline with another name, another table, no topic, and a transform that keeps every record."""
    _, _, folder = loaded.parts()
    other = shutil.copytree(folder.path, folder.path.parent / "sold", ignore=shutil.ignore_patterns("__pycache__"))
    for file in (other / "__init__.py", other / "target.sql"):
        text = file.read_text().replace('name="sales"', 'name="sold"').replace("public.sales_by_hour", "public.sold")
        file.write_text(re.sub(r"feed=Feed\(.*\),\n", "", text))
    (other / "transform.py").write_text("def transform(records):\n    return records.where('amount > 0')\n")
    with closing(connect(loaded.dsn)) as conn:
        migrate_target(conn, load("sold"))
    return replace(loaded, name="sold")


def run(loaded, *, by_driver: bool = False) -> None:
    """Reads what is there, shows what is due, and sends it."""
    at, spark, folder = loaded.parts()
    reader = KafkaRanges(loaded.kafka, KafkaOptions())
    here = ChosenEngine(folder, lambda: ProcessReader(folder, reader, loaded.dsn), lambda: spark, IN_PROCESS)
    engine = here if by_driver else spark
    list(until_idle(at, engine, folder, Caller("test"), wait=1))
    emit(at.conn, at.broker, folder.pipeline)
    assert relay_behind(at, folder.pipeline, "test").warnings == []


def clean_pass(watermark: datetime, late: set[str]) -> dict:
    """Returns the windows that the watermark has passed, added up from the sample alone, without what is late."""
    found = defaultdict(list)
    for _, value in SAMPLES["sales"].records(0, 0, 2 * EACH):
        sale = json.loads(value)
        at = datetime.fromisoformat(sale["sold_at"])
        start = at.replace(minute=0, second=0, microsecond=0)
        if sale["sale_id"] not in late and start + timedelta(hours=1) <= watermark:
            found[start, sale["shop"]].append(Decimal(sale["amount"]))
    return {key: (len(amounts), sum(amounts)) for key, amounts in found.items()}


def test_sales_appear_are_corrected_come_late_and_are_in_the_topic(sales, produce, kafka):
    loaded, source, sink = sales
    for first in (0, EACH):
        produce(source, SAMPLES["sales"].records(0, first, EACH))
        run(loaded, by_driver=True)

    assert loaded.ask(WAYS) == [("process",)]
    ((watermark,),) = loaded.ask("select watermark from lockstep.event_time")
    late = {sale for (sale,) in loaded.ask("select row ->> 'sale_id' from lockstep.late")}
    rows = loaded.ask(ROWS.format("sales_by_hour"))
    assert {(start, shop): (count, revenue) for start, shop, count, revenue, *_ in rows} == clean_pass(watermark, late)
    assert len(late) > 5
    assert {revision for *_, revision in rows} == {1, 2}
    assert loaded.ask("select count(*) from lockstep.window_state where ends > '2098-01-01' and revision = 0") == [(2,)]

    folded = fold_topic(kafka, sink)
    table = [row for (row,) in loaded.ask("select to_jsonb(t) from public.sales_by_hour t")]
    assert same_rows(folded.rows.values(), table)
    assert folded.records > len(rows)
    assert not same_rows(folded.rows.values(), table[1:])
    assert faults(loaded) == []


def test_through_spark_windows_are_those_that_the_driver_reads(sales, produce):
    by_driver, source, _ = sales
    by_spark = through_spark(by_driver)
    for first in (0, EACH):
        produce(source, SAMPLES["sales"].records(0, first, EACH))
        run(by_driver, by_driver=True)
        run(by_spark)

    assert by_spark.ask(f"{WAYS} join lockstep.batch using (batch_id) where pipeline = 'sold'") == [("spark",)]
    rows = by_spark.ask(ROWS.format("sold"))
    assert rows == by_driver.ask(ROWS.format("sales_by_hour"))
    assert len(rows) > 40
    late = by_spark.ask(LATE.format("sold"))
    assert late == by_driver.ask(LATE.format("sales_by_hour"))
    assert len(late) > 5
    assert faults(by_spark) == []


def faults(loaded) -> list[str]:
    at, _, folder = loaded.parts()
    return [f"{check.name}: {check.detail}" for check in verify(at.conn, at.broker, folder, deep=True) if not check.ok]
