"""Tests a ledger that went back in time while the store did not: the guarantees, and what `restored` says."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from lockstep.adapters.folders import load
from lockstep.context.systems import results_elsewhere
from lockstep.core.errors import BadData, Refusal
from lockstep.steps.changes.restored import restored
from support.scenes.here import ME, Here
from support.servers.timelines import Timelines, copied

FIRST = [(f"k{i}", json.dumps({"id": f"r{i}", "n": i})) for i in range(100)]
LATER = [(f"k{i}", json.dumps({"id": f"r{i}", "n": i})) for i in range(100, 150)]


@pytest.fixture
def failed_over(delivered, produce, postgres, monkeypatch):
    """Yields `failed_over(guarantee, store)`.

    It makes 100 records in both timelines, and 50 more that the lost one alone has delivered.
    """
    open_ones: list = []

    def make(guarantee: str, store: str) -> Timelines:
        drill = delivered(guarantee, store, records=FIRST)
        first = Here(drill)
        first.drain()
        first.at.close()
        copy = copied(postgres, drill.dsn)
        both = Timelines(drill, copy.__enter__())
        open_ones.append((copy, both))
        produce(drill.topic, LATER)
        drill.ask("select 1")
        for _ in range(3):  # the lost timeline is ahead by some attempts
            both.lost.plan()
        both.lost.code = lambda value: value | {"n": value["n"] + 1_000}
        _draw(drill, 40)
        both.lost.drain()
        monkeypatch.setenv("LOCKSTEP_DSN", both.survivor.drill.dsn)
        return both

    yield make
    for copy, both in open_ones:
        both.end()
        copy.__exit__(None, None, None)


def _draw(drill, times: int) -> None:
    drill.ask(
        "select set_config('role', 'lockstep_stager', false), (select count(nextval('lockstep.token_seq')) "
        "from generate_series(1, %s))",
        times,
    )


def say(both: Timelines):
    here = both.survivor
    pipeline = load("drill").pipeline
    return restored(here.at.conn, here.at.broker, pipeline, results_elsewhere(pipeline), ME)


def stored(both: Timelines) -> Counter:
    return Counter(n for (n,) in both.survivor.drill.rows("n"))  # type: ignore[attr-defined]


@pytest.mark.parametrize("store", ["warehouse", "files"])
def test_before_it_is_said_the_store_s_newer_results_are_named_as_a_restore(failed_over, store):
    both = failed_over("Idempotent()", store)
    with pytest.raises(Refusal, match="lockstep restored drill") as refused:
        both.survivor.run()
    assert "restored to an earlier time" in str(refused.value)


@pytest.mark.parametrize(("guarantee", "store"), [("Idempotent()", "warehouse"), ("Idempotent()", "files")])
def test_idempotent_results_are_written_again_over_themselves(failed_over, guarantee, store):
    both = failed_over(guarantee, store)

    found = say(both)

    assert sum(each.until_offset - each.from_offset for each in found.evidence.told) == 50
    assert found.evidence.strange
    assert all("written again over itself" in need for need in found.needs)
    both.survivor.drain()
    assert stored(both) == Counter(range(150))
    assert say(both).evidence.strange == ()


@pytest.mark.parametrize("store", ["warehouse", "files"])
def test_at_least_once_the_doubles_are_those_that_were_named(failed_over, store):
    both = failed_over("AtLeastOnce()", store)

    found = say(both)

    named = sum(each.until_offset - each.from_offset for each in found.evidence.ahead)
    assert named == 50
    assert all("will stand twice" in need for need in found.needs)
    both.survivor.drain()
    assert stored(both) == Counter(range(150)) + Counter(range(1_100, 1_150))


@pytest.mark.parametrize("store", ["warehouse", "files"])
def test_at_most_once_nothing_is_doubled_and_what_is_replaced_is_named(failed_over, store):
    both = failed_over("AtMostOnce()", store)

    found = say(both)

    assert all("takes these rows out" in need for need in found.needs)
    both.survivor.drain()
    assert stored(both) == Counter(range(150))


def test_at_most_once_before_it_is_said_the_refusal_names_the_restore(failed_over):
    both = failed_over("AtMostOnce()", "warehouse")
    with pytest.raises(BadData, match="restored to an earlier time"):
        both.survivor.run()
    assert stored(both) == Counter(range(100)) + Counter(range(1_100, 1_150))


def test_what_a_lost_replay_brought_is_named_and_a_replay_mends_it(delivered, postgres, monkeypatch):
    drill = delivered("Idempotent()", "warehouse", records=FIRST)
    first = Here(drill)
    first.drain()
    first.at.close()
    with copied(postgres, drill.dsn) as survivor:
        both = Timelines(drill, survivor)
        both.lost.replay()
        assert stored(both) == Counter(range(1_000, 1_100))
        monkeypatch.setenv("LOCKSTEP_DSN", survivor)

        found = say(both)

        assert found.evidence.told == ()
        assert found.evidence.ahead == ()
        assert all("lockstep replay drill over these offsets" in need for need in found.needs)
        assert {(each.from_offset) for each in found.evidence.strange} == {0}
        both.survivor.replay()
        assert stored(both) == Counter(range(100))
        assert say(both).evidence.strange == ()
        both.end()
