"""Tests how often a run asks the broker for a topic's bounds: to plan, before the read and after it."""

from __future__ import annotations

from lockstep.adapters.kafka.broker import Broker
from support.scenes.here import Here


def test_a_run_asks_three_times_the_first_one_too(drill, monkeypatch):
    here, asked, view = Here(drill), [], Broker.view
    monkeypatch.setattr(Broker, "view", lambda self, topic: asked.append(topic) or view(self, topic))

    here.rewrite("records=200", "records=10")
    first = here.run()
    of_first, asked[:] = len(asked), []
    second = here.run()
    here.at.close()

    assert first.went_on
    assert second.went_on
    assert (of_first, len(asked)) == (3, 3)
    assert drill.violations() == []
