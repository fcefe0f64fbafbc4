"""Tests the recipe for totals by hour of docs/cookbook.md, and the example of docs/windows.md, as they stand there."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import psycopg2

import lockstep
from lockstep.adapters.postgres import connect
from lockstep.core.pipeline.folder import PipelineFolder
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.windows.emit import emit
from lockstep.targets.table.fit import require_fit
from simulation.log import BEGINNING, Record
from simulation.scene import Scene

DOCS = Path(__file__).parents[2] / "docs"
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SQL = re.compile(r"^```sql\n(create table.*?)^```", re.MULTILINE | re.DOTALL)
SOLD = [("North", 2.5, "10:10:00"), ("North", 4, "10:50:00"), ("South", 1, "12:30:00")]
RECORD = '{{"order_id": "1", "n": 1, "shop": "{shop}", "amount": {amount}, "placed_at": "2026-05-01T{at}Z"}}'


def example(text: str) -> dict:
    """Returns the names that a block of Python defines."""
    names = {name: getattr(lockstep, name) for name in lockstep.__all__ if isinstance(getattr(lockstep, name), type)}
    exec(compile(text, "a page", "exec"), names)  # noqa: S102 - the page's own words
    return names


def test_the_recipe_and_the_page_say_the_same_windows():
    recipe = (DOCS / "cookbook.md").read_text().split("\n## Totals by hour, corrected for a day\n")[1]
    of_page = example(PYTHON.search((DOCS / "windows.md").read_text())[1])["SALES"]
    of_recipe = example(PYTHON.search(recipe)[1])
    assert (of_recipe["target"], of_recipe["event_time"]) == (of_page.target, of_page.event_time)


def test_the_page_does_what_it_says(database, tmp_path):
    page = (DOCS / "windows.md").read_text()
    pipeline = example(PYTHON.search(page)[1])["SALES"]
    scene = Scene(database, tmp_path)
    scene.folder = PipelineFolder(pipeline, tmp_path, None, None, SQL.search(page)[1])
    scene.pipeline = pipeline
    scene.log.topic = pipeline.topic
    with closing(connect(database)) as conn:
        migrate_target(conn, scene.folder)
        with conn.cursor() as cur:
            require_fit(cur, pipeline, pipeline.columns)
    part = scene.log.parts[0]
    for place, (shop, amount, at) in enumerate(
        [("North", 2.5, "10:10:00"), ("North", 4, "10:50:00"), ("South", 1, "12:30:00")]
    ):
        value = RECORD.format(shop=shop, amount=amount, at=at).encode()
        part.records[place] = Record(b"k", value, BEGINNING)
    part.end = part.stable_end = 3
    scene.run()
    emit(scene.at.conn, scene.at.broker, pipeline)
    with closing(psycopg2.connect(database)) as conn, conn.cursor() as cur:
        cur.execute("select shop, orders, revenue, _revision from public.sales_by_hour order by window_start, shop")
        assert cur.fetchall() == [("North", 2, 6.5, 1), ("South", 1, 1, 1)]
    scene.end()
