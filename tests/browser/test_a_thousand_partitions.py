"""Tests every page with 1,000 partitions and the longest names: nothing leaves the window, wide or as a telephone's.

The app is served without Airflow, over a ledger that bench/pages.sql fills. The browser is a real one.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from argparse import Namespace
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import psycopg2
import pytest
import uvicorn
from fastapi import FastAPI

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import connect
from lockstep.core.pipeline.names import MOST_NAME_LENGTH
from lockstep.ledger.migrate import migrate_target
from web.answers import guards
from web.conftest import dags  # noqa: F401 - a fixture

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
BENCH = Path(__file__).parents[2] / "bench"
WIDTHS = (1440, 420)
NAME = "orders_of_the_shop_with_the_longest_name_a_pipeline_ever_can_ge"
TOPIC = "the.longest.name.of.a.topic.".ljust(249, "x")  # of Kafka
OWNER = "the-team-of-" + "n" * 80
# 1,250 batches over eight partitions each and, the newest, ten over all of them.
SIZE = Namespace(streams=1_000, narrow=1_250, wide=10, sets=1_300, minutes=600, late=600)
TIMED_NAME = "takings_of_the_shop_with_the_longest_name_a_pipeline_ever_can_g"
TABLE = """create table if not exists public.bench (id text primary key, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null)"""
DEFINITION = f"""from lockstep.core.pipeline.definition import Json, Pipeline, Upsert
P = Pipeline("{NAME}", "{TOPIC}", Json("id string", key="id"), Upsert("public.bench", key=("id",)))
"""
# What sticks out of the window, unless it lies in something that scrolls or cuts it off.
OUTSIDE = """() => {
    const wide = document.documentElement.clientWidth, found = [];
    const held = at => {
        for (let up = at.parentElement; up; up = up.parentElement)
            if (getComputedStyle(up).overflowX !== "visible") return true;
        return false;
    };
    for (const each of document.body.querySelectorAll("*")) {
        const place = each.getBoundingClientRect(), leaves = place.right > wide + 1 || place.left < -1;
        if (place.width && leaves && !held(each)) found.push(`${each.outerHTML.slice(0, 80)}: ${place.left} to ${place.right}`);
    }
    return found;
}"""

# How far a table reaches beyond the part of it that is seen.
HIDDEN = """() => [...document.querySelectorAll(".scroll")]
    .map(each => each.scrollWidth - each.clientWidth).filter(over => over > 1)"""


@pytest.fixture
def programs(monkeypatch):
    """Returns the module of `make bench-pages`."""
    monkeypatch.syspath_prepend(str(BENCH))
    yield __import__("pages")
    for name in ("pages", "one_record"):
        sys.modules.pop(name, None)


@pytest.fixture
def ledger_of_thousand(database, postgres, programs, tmp_path, monkeypatch):
    """Fills a ledger with the statements of the bench, under the longest names. Returns its DSN."""
    timed_definition = programs.TIMED.replace("bench_time", TIMED_NAME)
    written = {NAME: (DEFINITION, TABLE), TIMED_NAME: (timed_definition, programs.TIMED_TARGET)}
    for name, (definition, table) in written.items():
        folder = tmp_path / "pipelines" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(definition)
        (folder / "target.sql").write_text(table)
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(tmp_path / "pipelines"))
    made, timed = load(NAME), load(TIMED_NAME)
    with closing(connect(database)) as conn:
        migrate_target(conn, made)
        migrate_target(conn, timed)
    facts = vars(SIZE) | {"definition_hash": made.content_hash(), "document": json.dumps(made.document())}
    facts |= {"timed_hash": timed.content_hash(), "timed": json.dumps(timed.document())}
    superuser = postgres.rpartition("/")[0] + "/" + database.rpartition("/")[2]
    with closing(psycopg2.connect(superuser)) as conn, conn, conn.cursor() as cur:
        for statement in programs.statements().values():
            renamed = statement.replace("'bench.v1'", f"'{TOPIC}'").replace("'bench_history'", f"'{NAME}_history'")
            renamed = renamed.replace("'bench_time'", f"'{TIMED_NAME}'")
            cur.execute(renamed.replace("'bench'", f"'{NAME}'"), facts)
    return database


@contextmanager
def serving(app: FastAPI):
    """Serves an app on a free port. Yields its address."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    end = time.monotonic() + 30
    while not server.started:
        assert time.monotonic() < end, "the server did not start"
        time.sleep(0.05)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(30)


@pytest.fixture
def address(ledger_of_thousand, programs, dags, monkeypatch):  # noqa: F811 - the fixture
    """Yields where the pages are, before a broker on which records wait in every partition."""
    from lockstep.web import place  # noqa: PLC0415 - Airflow reads its home when it is imported
    from lockstep.web.app import pages_app  # noqa: PLC0415 - the same

    end = (SIZE.narrow // (SIZE.streams // 8) + SIZE.wide) * 100
    still = programs.StillBroker({p: end + 10_000_000 * (p % 7 == 0) + p for p in range(SIZE.streams)})
    monkeypatch.setattr("lockstep.context.systems.broker", lambda: still)
    monkeypatch.setattr("lockstep.steps.feed.look_at_relay.mirrored", lambda *_: {0: (SIZE.sets - 1_000) * 10})
    monkeypatch.setattr(place, "REMEMBERED", place.Remembered(seconds=0.1))
    monkeypatch.setenv("LOCKSTEP_DSN", ledger_of_thousand)
    monkeypatch.setenv("LOCKSTEP_KAFKA", "nowhere:9092")
    dags(owners=OWNER, **{NAME: False})
    dags("lockstep", "history", owners=OWNER, **{f"{NAME}_history": False})
    pages = pages_app()
    for guard in guards(pages):
        readable = SimpleNamespace(value={NAME, f"{NAME}_history", TIMED_NAME})
        answer = readable if guard.__name__ == "depends_permitted_dags_filter" else None
        pages.dependency_overrides[guard] = lambda answer=answer: answer
    app = FastAPI()
    app.mount("/lockstep", pages)
    with serving(app) as found:
        yield found


def test_nothing_leaves_the_page_with_a_thousand_partitions_and_the_longest_names(
    address, programs, chromium, tmp_path
):
    assert (len(NAME), len(TIMED_NAME), len(TOPIC)) == (MOST_NAME_LENGTH, MOST_NAME_LENGTH, 249)
    paths = {
        name: path.replace("/dags/bench_time", f"/dags/{TIMED_NAME}").replace("/dags/bench", f"/dags/{NAME}")
        for name, path in programs.pages_of(SIZE).items()
    }
    paths |= {"coverage, the last hours": f"/dags/{NAME}/coverage?last=168", "a page that is not there": "/nowhere"}
    found, words = {}, {}
    for width in WIDTHS:
        context = chromium.new_context(viewport={"width": width, "height": 900}, timezone_id="UTC")
        page = context.new_page()
        for number, (name, path) in enumerate(paths.items()):
            page.goto(f"{address}/lockstep{path}", wait_until="load")
            page.locator("h1").wait_for()
            page.screenshot(path=tmp_path / f"thousand-{width}-{number}.png", full_page=True)
            over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if (outside := page.evaluate(OUTSIDE)) or over > 0:
                found[name, width] = (over, outside[:5])
            if name == "pipelines" and (hidden := page.evaluate(HIDDEN)):
                found[name, width] = hidden
            words[name] = page.inner_text("body")
        context.close()

    assert found == {}
    assert "1,000 partitions" in words["pipelines"]
    assert TOPIC in words["pipelines"]
    assert "Partitions 1 to 40 of 1000." in words["coverage, 40 partitions whole"]
    assert "Most behind of 1,000" in words["coverage, 40 partitions whole"]
    assert "1 to 50 of 1000" in words["batch over all partitions"]
    assert "10,000 changes" in words["feed, the newest sets"]
    assert "the watermark" in words["time, 500 windows"].lower()
    assert "late rows\n600" in words["late, the newest"]
