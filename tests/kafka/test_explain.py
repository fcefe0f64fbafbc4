"""Tests the gaps of real logs by kind: aborted records, markers, compacted and trimmed records."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from lockstep.adapters.kafka.broker import Broker
from lockstep.core.errors import Refusal
from lockstep.core.planning.bounds import parse_bound
from lockstep.steps.proof.explain import Within, explain
from lockstep.steps.proof.verify import verify
from support.scenes.odd_logs import COMPACTED, compact, delete_records, offsets_in, records, recreate

if TYPE_CHECKING:
    from support.scenes.here import Here


def told(here: Here, begin: str | None = None, end: str | None = None, partition: int | None = None):
    within = Within(begin and parse_bound(begin, "--from"), end and parse_bound(end, "--until"), partition)  # type: ignore[arg-type]
    document = explain(here.at.conn, here.at.broker, here.folder.pipeline, within, datetime.now(UTC))
    return [(g["from_offset"], g["until_offset"], g["kind"], g["count"]) for g in document["gaps"]], document


def test_markers_and_aborted_records_are_told_apart_and_bounds_limit_the_look(elsewhere, produce):
    here = elsewhere()
    kafka, name = here.drill.kafka, here.drill.topic
    produce(name, records(3), 0, "commit")  # 0..2, a marker at 3
    produce(name, records(4, 10), 0, "abort")  # 4..7, a marker at 8
    produce(name, records(2, 20), 0)  # 9, 10
    here.drain()
    assert offsets_in(kafka, name) == [0, 1, 2, 9, 10]
    assert offsets_in(kafka, name, committed=False) == [0, 1, 2, 4, 5, 6, 7, 9, 10]

    gaps, document = told(here)

    assert gaps == [(3, 4, "marker", 1), (4, 8, "aborted", 4), (8, 9, "marker", 1)]
    assert document["counts"] == {
        "trimmed": 0,
        "aborted": 4,
        "compacted": 0,
        "marker": 2,
        "marker_or_compacted": 0,
        "invisible": 0,
    }
    assert document["offsets"] == 11
    assert told(here, "0:5", "0:8")[0] == [(5, 8, "aborted", 3)]
    assert told(here, partition=0)[0] == gaps
    assert here.drill.violations() == []


def test_what_was_trimmed_since_is_told_and_is_no_marker(elsewhere, produce):
    here = elsewhere()
    produce(here.drill.topic, records(3), 0, "commit")
    produce(here.drill.topic, records(6, 10), 0)
    here.drain()
    delete_records(here.drill.kafka, here.drill.topic, 6)

    assert told(here)[0] == [(0, 6, "trimmed", 6)]


def test_in_a_compacted_log_only_what_is_known_to_have_held_a_record_is_called_compacted(elsewhere, produce):
    here = elsewhere(**COMPACTED)
    kafka, name = here.drill.kafka, here.drill.topic
    produce(name, [("a", records(1)[0][1])] * 4, 0)  # 0..3, of which one survives
    produce(name, records(2, 10), 0, "commit")  # 4, 5, a marker at 6
    here.drain()  # every record is read before the log is compacted
    assert here.drill.ask("select count(*) from public.drill") == [(6,)]
    compact(kafka, name, below=4)
    assert offsets_in(kafka, name)[0] == 3

    gaps, _ = told(here, end="0:7")

    assert gaps == [(0, 3, "compacted", 3), (6, 7, "marker_or_compacted", 1)]


def test_what_was_compacted_before_it_was_read_is_not_called_by_a_name_nobody_knows(elsewhere, produce):
    here = elsewhere(**COMPACTED)
    kafka, name = here.drill.kafka, here.drill.topic
    produce(name, [("a", records(1)[0][1])] * 4, 0)
    produce(name, records(2, 10), 0)
    compact(kafka, name, below=4)
    end = offsets_in(kafka, name)[-1] + 1

    here.drain()

    assert told(here)[0] == [(0, 3, "marker_or_compacted", 3)]
    assert here.drill.ask("select min(_offset), count(*) from public.drill") == [(3, end - 3)]
    assert here.drill.violations() == []


@pytest.mark.parametrize(
    ("prove", "again"),
    [
        pytest.param(told, "lockstep holes drill --explain", id="holes"),
        pytest.param(
            lambda here: verify(here.at.conn, here.at.broker, here.folder, deep=True),
            "lockstep verify drill --deep",
            id="verify",
        ),
    ],
)
def test_a_topic_that_is_made_anew_while_it_is_read_proves_nothing(elsewhere, produce, monkeypatch, prove, again):
    here = elsewhere()
    kafka, name = here.drill.kafka, here.drill.topic
    produce(name, records(3), 0, "commit")  # a marker at 3: the stretch is read again
    produce(name, records(5, 10), 0)
    here.drain()
    read, made = Broker.records, []

    def made_anew(broker: Broker, *where: Any, **how: Any):
        if not made:
            made.append(name)
            recreate(kafka, name, 1)
            produce(name, records(9, 500), 0)  # other records, at all of these offsets
        return read(broker, *where, **how)

    monkeypatch.setattr(Broker, "records", made_anew)
    with pytest.raises(Refusal, match="was made anew while it was read") as refused:
        prove(here)
    assert refused.value.next_command == again
