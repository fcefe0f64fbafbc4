"""Health is the worst condition that holds. A pipeline that is behind, stopped or unknown is never said to be well."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lockstep.core.health.health import Health, HealthFacts, Work, age, duration, health_word, judge_health

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"


def stream(
    partition: int = 0, lag: int | None = 0, oldest: float | None = 0.0, holes: int = 0, skipped: int = 0
) -> dict:
    end = None if lag is None else 40 + lag
    known = {"topic": "orders.v1", "partition": partition, "stable_end": end, "lag_records": lag, "holes": holes}
    return known | {"oldest_waiting_seconds": oldest, "skipped": skipped}


def seen(*streams: dict, after: float | None = 600.0, warnings: tuple = ()) -> dict:
    return {"streams": list(streams), "behind_after_seconds": after, "warnings": list(warnings)}


def known(*work: Work, planned: bool = True, paused: bool = False, dag_paused: bool | None = None) -> HealthFacts:
    return HealthFacts("orders", planned, paused, work, dag_paused)


def batch(*, held: bool = False, failing: bool = False, preview: bool = False, request: int | None = None) -> Work:
    return Work(7, "live" if request is None else "fill", request, preview, held, failing)


def warning(kind: str) -> dict:
    return {"kind": kind, "message": "said", "next": "typed"}


LATE = stream(lag=5, oldest=600.1)
CASES = [
    ("nothing waits", known(), seen(stream()), []),
    ("a batch is read now", known(batch(held=True)), seen(stream(lag=9, oldest=599.0)), []),
    ("exactly two schedules", known(), seen(stream(lag=1, oldest=600.0)), []),
    ("nothing says when it is late", known(), seen(stream(lag=9, oldest=9e9), after=None), []),
    ("older than two schedules", known(), seen(LATE), ["behind"]),
    ("one partition of many", known(), seen(stream(), LATE, stream(lag=1, oldest=None)), ["behind"]),
    ("a lease is over", known(batch()), seen(stream()), ["interrupted"]),
    ("of a preview", known(batch(preview=True, request=3)), seen(stream()), []),
    ("of a batch that waits for a person", known(batch(failing=True)), seen(stream()), ["failing"]),
    ("interrupted and behind", known(batch()), seen(LATE), ["interrupted", "behind"]),
    ("the DAG is paused", known(dag_paused=True), seen(stream()), ["off"]),
    ("it is not", known(dag_paused=False), seen(stream()), []),
    ("off and behind", known(dag_paused=True), seen(LATE), ["behind", "off"]),
    ("never planned", known(planned=False), seen(), ["not planned yet"]),
    ("never planned and off", known(planned=False, dag_paused=True), seen(), ["not planned yet", "off"]),
    ("paused by a person", known(paused=True), seen(stream()), ["paused"]),
    ("no broker", known(), None, ["unknown"]),
    ("no broker, and a lease is over", known(batch(), dag_paused=True), None, ["unknown", "interrupted", "off"]),
    ("an age is not known", known(), seen(stream(lag=1, oldest=None)), ["unknown"]),
    ("another log", known(batch()), seen(stream(lag=None, oldest=None)), ["blocked", "interrupted"]),
    ("a log that was cut", known(), seen(stream(lag=-3)), ["blocked"]),
    ("retention took records", known(), seen(stream(), warnings=(warning("retention_passed"),)), ["blocked"]),
    ("retention comes near", known(), seen(stream(), warnings=(warning("retention_near"),)), ["warned"]),
    ("a hole", known(), seen(stream(holes=1)), ["holes"]),
]


@pytest.mark.parametrize(("ledger", "broker", "states"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_every_condition_is_told_and_the_worst_is_the_health(ledger, broker, states):
    found = judge_health(ledger, broker)

    assert [condition.state for condition in found] == states
    assert health_word(found) == (states[0] if states else "well")
    assert all(condition.message for condition in found)


def test_a_condition_names_numbers_and_the_next_command():
    (late,) = judge_health(known(), seen(stream(partition=3, lag=5, oldest=38 * 60)))
    assert late.message == "orders.v1-3: the oldest record that waits is 38 min old, more than 10 min"
    assert late.next == "lockstep run orders --until-idle"
    (stopped,) = judge_health(known(batch(request=4)), seen(stream()))
    assert stopped.message == "batch 7: nobody works on it, and it is not committed"
    assert stopped.next == "lockstep fill orders --request 4"
    (away,) = judge_health(known(), None, "Kafka at a:9092 does not answer")
    assert away.message == "Kafka at a:9092 does not answer"


@pytest.mark.parametrize(
    ("of", "seconds"),
    [
        (NOON - timedelta(minutes=3), 180.0),
        (NOON + timedelta(seconds=30), 0.0),  # a producer's clock that runs a little ahead
        (NOON + timedelta(days=9), None),  # says nothing of how long the record has waited
        (None, None),
    ],
)
def test_the_age_of_a_record_is_told_by_a_time_that_has_come(of, seconds):
    assert age(of, NOON) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (119, "119 s"), (2280, "38 min"), (9e4, "25 h"), (2e5, "2 d")]
)
def test_a_duration_is_read_at_once(seconds, text):
    assert duration(seconds) == text


def test_holes_say_how_many_a_person_has_skipped():
    (condition,) = judge_health(known(), seen(stream(0, holes=2), stream(1, holes=1, skipped=1)), None)
    assert condition.message == "stretches below the position that no batch covers: 3, of which skipped by a person: 1"
    assert condition.next == "lockstep holes orders"


def test_the_glossary_has_the_states_in_their_order():
    (row,) = [line for line in GLOSSARY.read_text().splitlines() if line.startswith("| health |")]
    places = [row.find(f"*{state}*") for state in Health]

    assert -1 not in places
    assert places == sorted(places)
