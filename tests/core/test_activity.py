"""Tests the answer to an interrupt at each step."""

from __future__ import annotations

import pytest

from lockstep.core.planning.activity import COMMITTING, READING, VALIDATING, Activity, interrupted_answer

RUN = "lockstep run orders"


@pytest.mark.parametrize(
    ("step", "again", "answer"),
    [
        ("planning", RUN, "stopping; go on with: lockstep run orders"),
        (Activity(11, READING), RUN, "stopping; batch 11 is unfinished, and goes on with: lockstep run orders"),
        (Activity(11, VALIDATING), RUN, "stopping; batch 11 is unfinished, and goes on with: lockstep run orders"),
        (
            Activity(11, COMMITTING),
            RUN,
            "stopping; batch 11 may be committed as a whole already; go on with: lockstep run orders",
        ),
        (Activity(11, READING), None, "stopping; nothing was changed"),
        ("telling gaps apart", None, "stopping; nothing was changed"),
    ],
)
def test_an_interrupt_is_told_what_is_left_and_how_to_go_on(step, again, answer):
    assert interrupted_answer(step, again) == answer


def test_an_activity_is_its_own_line():
    assert f"{Activity(11, READING)}" == "batch 11: reading"
