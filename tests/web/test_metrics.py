"""Airflow's server answers Prometheus with the pipelines that the same reader's page shows, whatever is away."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest

from lockstep.steps.windows.emit import emit
from support.oracles.exposed import conditions, health, values
from support.scenes.windowed import event, into_windows


@pytest.fixture
def scraped(pages):
    """Scrapes once, as somebody who may read drill and never_run."""

    def scrape():
        answer = pages("/metrics")
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/plain; version=")
        return values(answer.text)

    return scrape


def test_a_scrape_tells_each_pipeline_anew(scraped, here, produce):
    here.drain()
    assert scraped()["lockstep_lag_records", "drill"] == 0
    produce(here.drill.topic, [("k", json.dumps({"id": "late", "n": 1}))] * 7, partition=1)

    found = scraped()

    assert found["lockstep_lag_records", "drill"] == 7, "nothing is remembered of the scrape before"
    assert (found["lockstep_up", "ledger"], found["lockstep_up", "kafka"]) == (1, 1)
    assert (health(found, "drill"), found["lockstep_pipeline_up", "drill"]) == ("well", 1)
    assert ("lockstep_lag_records", "never_run") not in found, "nobody knows that it is a pipeline"


def test_a_paused_dag_is_off_and_a_pipeline_that_never_ran_is_told(scraped, here, dags):
    here.drain()
    dags(drill=True, never_run=False, other_team=False)

    found = scraped()

    assert (health(found, "drill"), health(found, "never_run")) == ("off", "not planned yet")
    assert found["lockstep_pipeline_up", "never_run"] == 1
    assert not [key for key in found if "other_team" in key], "the reader may not read its DAG"


def test_a_broker_that_is_away_leaves_what_ledger_and_airflow_know(scraped, here, dags, monkeypatch):
    here.drain()
    dags(drill=True)
    monkeypatch.setenv("LOCKSTEP_KAFKA", "127.0.0.1:1")
    begun = time.monotonic()

    found = scraped()

    assert time.monotonic() - begun < 10
    assert (found["lockstep_up", "ledger"], found["lockstep_up", "kafka"]) == (1, 0)
    assert (health(found, "drill"), conditions(found, "drill")) == ("unknown", {"unknown", "off"})
    assert found["lockstep_last_commit_timestamp_seconds", "drill"] > 0


def test_a_database_that_is_away_leaves_what_airflow_knows(scraped, here, dags, monkeypatch):
    here.drain()
    dags(drill=True)
    monkeypatch.setenv("LOCKSTEP_DSN", "postgresql://lockstep:hunter2@127.0.0.1:1/lockstep")

    found = scraped()

    assert (found["lockstep_up", "ledger"], found["lockstep_up", "kafka"]) == (0, 1)
    assert ("lockstep_last_error_timestamp_seconds", "Unreachable", "ledger") in found
    assert conditions(found, "drill") == {"unknown", "off"}


def test_openmetrics_is_spoken_to_those_who_ask_for_it(pages, here):
    here.drain()
    answer = pages("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert 'lockstep_health{lockstep_health="well",pipeline="drill"} 1.0' in answer.text
    assert answer.text.endswith("# EOF\n")


@pytest.fixture
def windowed(drill):
    """Yields the drill in windows of a minute, with a feed."""
    made = into_windows(drill, of_target=", feed=Feed()")
    yield made
    made.at.close()


def test_a_scrape_tells_of_windows_and_feeds_by_target(scraped, windowed, produce):
    windowed.drain()
    emit(windowed.at.conn, windowed.at.broker, windowed.folder.pipeline)
    produce(windowed.drill.topic, [event(1, "r1"), event(2, "r2")], partition=0)
    windowed.drain()
    ((mark,),) = windowed.drill.ask("select watermark from lockstep.event_time")

    found = scraped()

    lag = found["lockstep_watermark_lag_seconds", "drill"]
    assert (datetime.now(UTC) - mark).total_seconds() - lag == pytest.approx(0, abs=60)
    told = {name: value for (name, *labels), value in found.items() if labels == ["drill", "public.by_minute"]}
    assert told == {
        "lockstep_open_windows": 30,
        "lockstep_due_windows": 0,
        "lockstep_late_rows": 2,
        "lockstep_feed_next_number": 120,
        "lockstep_feed_kept": 120,
    }


def test_without_windows_a_scrape_says_nothing_of_them(scraped, here):
    here.drain()
    assert not [key for key in scraped() if "watermark" in key[0] or "windows" in key[0] or "late_rows" in key[0]]
