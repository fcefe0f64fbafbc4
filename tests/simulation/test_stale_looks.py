"""Tests that a look at the log is compared with the streams under the lock.

Streams that moved in between are looked at again.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lockstep.core.errors import Refusal
from lockstep.core.planning.decisions import Blocked
from lockstep.steps.batch import plan
from lockstep.steps.changes import skip
from lockstep.steps.requests import plan_request
from lockstep.steps.requests.redrive import Held, redrive
from simulation.scene import ME, told

EPOCHS = "select leader_epoch from lockstep.stream where partition = 0"


@pytest.fixture
def moving(scene, monkeypatch):
    """Returns `moving(step)`: commits 20 offsets, validates 20 more, cuts the log at 30 and lets it grow to 50.

    The batch of these 20 commits right after the first look of the step.
    """

    def make(step) -> None:
        scene.log.produce(0, 20)
        attempt = scene.validated(scene.plan())
        scene.log.truncate(0, 30)
        scene.log.produce(0, 20)
        look, left = step.look, [attempt]

        def looking(conn, broker, streams, view):
            seen = look(conn, broker, streams, view)
            while left:
                scene.commit(left.pop())
            return seen

        monkeypatch.setattr(step, "look", looking)

    scene.log.produce(0, 20)
    scene.done()
    return make


def test_a_plan_looks_again_at_a_stream_that_moved_since_its_look(scene, moving):
    moving(plan)

    planned = scene.plan("other")

    assert isinstance(planned.decision, Blocked)
    assert "the record at offset 39 has leader epoch 1, and the log was last seen under 0" in planned.decision.reason
    assert scene.ask(EPOCHS) == [(0,)]


def test_the_plan_of_a_replay_looks_again_at_a_stream_that_moved_since_its_look(scene, moving):
    request = scene.asked("replay", {0: 0}, {0: 20})
    moving(plan_request)

    planned = scene.plan_request(request, "other")

    assert isinstance(planned.decision, Blocked)
    assert "the record at offset 39 has leader epoch 1" in planned.decision.reason
    assert scene.ask(EPOCHS) == [(0,)]


def test_a_skip_passes_over_nothing_when_a_stream_moved_since_its_look(scene, moving):
    moving(skip)

    said = told(lambda: skip.skip(scene.at.conn, scene.at.broker, scene.pipeline, None, ME, datetime.now(UTC)))

    assert said.startswith("PositionMoved: house: its streams moved while the broker was asked"), said
    assert scene.positions()[0] == 40
    assert scene.ask("select 1 from lockstep.coverage where kind = 'skipped'") == []


def test_a_leader_epoch_that_was_kept_does_not_go_back(scene):
    """A broker that lags behind names an older epoch. Records under the newer one are no sign of a truncation."""
    scene.log.produce(0, 20)
    scene.done()
    for _ in range(2):
        scene.log.elect(0)
    scene.log.produce(0, 10)
    scene.done()

    decided, kept = [], []
    for epoch in (1, 2):
        scene.log.parts[0].leader_epoch = epoch
        decided.append(type(scene.plan().decision).__name__)
        kept += scene.ask(EPOCHS)

    assert (decided, kept) == (["Idle", "Idle"], [(2,), (2,)])


def test_rejects_of_a_log_that_lost_its_end_are_not_read_again(scene):
    scene.log.produce(0, 20)
    scene.log.produce(0, 10, kind="garbage")
    scene.done()
    scene.log.truncate(0, 20)
    scene.log.produce(0, 30)

    with pytest.raises(Refusal, match="lost its end and grew past the position 30 again") as refused:
        redrive(scene.at.conn, scene.at.broker, scene.folder, Held(), ME)

    assert refused.value.next_command == "lockstep retire house --partition 0 --reason ..."
    assert scene.ask("select 1 from lockstep.request") == []
