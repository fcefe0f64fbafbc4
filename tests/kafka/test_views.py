"""How often the broker is asked what a topic holds: to plan, before the read and behind it, and no more often."""

from __future__ import annotations

from here import Here
from lockstep.adapters.kafka import Broker


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
