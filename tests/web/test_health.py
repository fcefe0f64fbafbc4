"""The page of all pipelines says well of none that is late, stopped, switched off or not known."""

from __future__ import annotations

import json
import re
import time

import pytest

from support.fakes.held import held_elsewhere
from web.answers import said

KEEP = "limits=Limits(records=200),"


def health(pages) -> str:
    (found,) = re.findall(r'<span class="health [a-z-]+">([a-z ]+)</span>', pages("/").text)
    return found


def test_a_pipeline_whose_dag_is_paused_is_off_and_one_whose_dag_runs_is_well(pages, here, dags):
    here.drain()
    assert health(pages) == "well", "nobody knows of its DAG"

    dags(drill=True)

    assert health(pages) == "off"
    assert "its DAG is paused in Airflow" in said(pages("/"))


def test_a_dag_that_runs_is_not_off(pages, here, dags):
    here.drain()
    dags(drill=False, never_run=False, other_team=True)

    words = said(pages("/"))

    assert "drill" in words
    assert "well" in words
    assert "never_run no stream yet not planned yet no plan has read its topic yet" in words
    assert "other_team" not in words, "nobody let the reader to it"


def test_a_dag_without_the_tag_is_no_pipeline(pages, here, dags):
    here.drain()
    dags("reports", never_run=True)

    assert "never_run" not in said(pages("/"))


def test_a_dag_behind_a_pipeline_is_none_whatever_it_shares_a_tag_with(pages, here, dags):
    here.drain()
    dags("lockstep", "example", never_run=False)

    assert "never_run" not in said(pages("/"))


def test_a_pipeline_that_nobody_schedules_is_behind(pages, here, produce):
    here.rewrite(KEEP, f'{KEEP} alarm="1s",')
    here.drain()
    produce(here.drill.topic, [("k", json.dumps({"id": "late", "n": 1}))], partition=1)
    time.sleep(1.2)

    assert health(pages) == "behind"
    assert f"{here.drill.topic}-1: the oldest record that waits is" in said(pages("/"))


# Held by a process of this machine that was killed, and by one of another machine: when its lease is over, and before.
HOLDERS = [(None, "interrupted", 1, 0), ("-1 second", "interrupted", 1, 0), ("1 hour", "well", 0, 1)]


@pytest.mark.parametrize(("lease", "state", "interrupted", "under_way"), HOLDERS)
def test_a_batch_that_nobody_holds_is_interrupted_and_not_under_way(
    pages, here, produce, lease, state, interrupted, under_way
):
    here.drain()
    produce(here.drill.topic, [("k", json.dumps({"id": "late", "n": 1}))], partition=1)
    assert "killed" in here.drill.run(fault="stage.done=kill")
    if lease:
        held_elsewhere(here.drill.dsn, lease)

    words = said(pages("/"))

    assert health(pages) == state
    assert ("nobody works on it, and it is not committed" in words) == bool(interrupted)
    assert ("1 interrupted" in words, "1 under way" in words) == (bool(interrupted), bool(under_way))


def test_a_broker_that_is_away_leaves_what_the_ledger_knows(pages, here, dags, monkeypatch):
    here.drain()
    dags(drill=True)
    monkeypatch.setenv("LOCKSTEP_KAFKA", "127.0.0.1:1")
    monkeypatch.setattr("lockstep.adapters.kafka.client.ANSWER_SECONDS", 1.0)

    assert health(pages) == "unknown"
    assert "off: its DAG is paused in Airflow" in said(pages("/"))
