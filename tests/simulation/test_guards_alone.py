"""Tests each guard alone against a danger, because guards hide one another. Without any, the danger is real."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from simulation.dangers import (
    a_fill_takes_what_is_lost,
    a_planner_leaves_offsets_out,
    a_replay_covers_nothing,
    a_replay_writes_positions,
    a_row_is_there_already,
    a_zombie_commits,
    coverage_changes_owner_under_a_plan,
    half_a_batch_is_committed,
    records_are_trimmed_under_the_read,
    staged_rows_are_changed,
    staged_rows_disappear,
    the_acknowledgement_is_lost,
    the_log_is_another_one,
    the_position_has_moved_on,
    the_same_offsets_are_planned_twice,
    two_replays_take_the_same_segment,
)
from simulation.guards import OFF

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Danger:
    """A danger, each guard against it with its own answer, and the damage without any guard."""

    happens: Callable
    guards: dict[str, str]
    breaks: str


MOVED = "^PositionMoved"
DANGERS = [
    Danger(
        a_zombie_commits,
        {
            "fence": "^Superseded: .* is superseded by attempt",
            "older_closed": "^Refusal: .* is superseded, not validated",
            "newest_attempt": "^CheckViolation: newest_attempt",
        },
        "committed by an attempt that was not its newest",
    ),
    Danger(
        the_position_has_moved_on,
        {"positions": MOVED, "compare_and_set": MOVED, "no_offset_twice": "^CoverageMoved"},
        "coverage goes from 6 to 0",
    ),
    Danger(
        a_planner_leaves_offsets_out,
        {
            "claimed_at_position": r"^Busy\(.* another batch has taken these offsets",
            "positions": MOVED,
            "compare_and_set": MOVED,
            "no_gap": "^CheckViolation: no_gap",
        },
        "coverage goes from 0 to 2",
    ),
    Danger(
        the_same_offsets_are_planned_twice,
        {
            "unfinished": "^Busy",
            "one_unfinished_live_batch": "^UniqueViolation: .*one_unfinished_live_batch",
            "claimed_once": "^ExclusionViolation: .*claimed_once",
        },
        r"^Start\(",
    ),
    Danger(
        two_replays_take_the_same_segment,
        {"taken": "^Busy", "claimed_once": "^ExclusionViolation: .*claimed_once"},
        r"^Start\(",
    ),
    Danger(
        coverage_changes_owner_under_a_plan,
        {"second_look": r"^Busy\(.* another batch has taken these offsets", "expected_owner": "^CoverageMoved"},
        "^committed",
    ),
    Danger(
        a_fill_takes_what_is_lost,
        {
            "free_offsets": "^nothing to fill",
            "second_look": "^Busy",
            "in_the_way": "^CoverageMoved: .* others lie in their place",
            "no_offset_twice": "^CoverageMoved: .* conflicts with existing key",
        },
        "coverage goes from",
    ),
    Danger(
        a_replay_writes_positions,
        {"compare_and_set": MOVED, "no_gap": "^CheckViolation: no_gap: the position .* moves back"},
        "the position is 6",
    ),
    Danger(
        a_replay_covers_nothing,
        {"covered_stays": "^CheckViolation: no_gap: coverage .* is taken away"},
        "coverage ends at 0, the position is 6",
    ),
    Danger(
        half_a_batch_is_committed,
        {
            "covered_by_commit": "^ForeignKeyViolation: .*covered_by_commit",
            "committed_whole": "^CheckViolation: committed_whole",
        },
        "a committed batch lacks a commit row",
    ),
    Danger(
        staged_rows_disappear,
        {
            "counts": "^Refusal: .* the staging table has changed",
            "digests": "^Refusal: .* have changed in staging",
            "contents_unchanged": "^CheckViolation: contents_unchanged",
            "rows_counted": "^BadData: .* rows were inserted",
        },
        "6 rows recorded, 5 are there",
    ),
    Danger(
        staged_rows_are_changed,
        {
            "digests": r"^Refusal: house.v1-0: batch \d+, stream \d+: the contents of its 6 rows have changed in staging",
            "contents_unchanged": "^CheckViolation: contents_unchanged",
        },
        "^committed",
    ),
    Danger(
        a_row_is_there_already,
        {"fit": "^Refusal: .* has no unique index", "target_key": "^RowsRefused: .* refuses the rows by house_pkey"},
        "doubled",
    ),
    Danger(
        the_log_is_another_one,
        {
            "plan_looks_at_the_log": r"^Blocked\(.*lockstep retire",
            "stage_looks_at_the_log": "^Refusal: .* is not the one",
        },
        "never in the log",
    ),
    Danger(
        records_are_trimmed_under_the_read,
        {"log_start_after": "^Refusal: .* were deleted", "read_whole": "^CheckViolation: read_whole"},
        "^committed",
    ),
    Danger(
        the_acknowledgement_is_lost,
        {"asks_the_witness": "^committed$", "finds_its_own": "^committed$"},
        "^Superseded: .* is already committed",
    ),
]

ALONE = [(danger, guard) for danger in DANGERS for guard in danger.guards]


@pytest.mark.parametrize(("danger", "alone"), ALONE, ids=[f"{d.happens.__name__}-{g}" for d, g in ALONE])
def test_a_guard_alone_keeps_the_promise(scene, monkeypatch, danger, alone):
    for guard in danger.guards.keys() - {alone}:
        OFF[guard](scene, monkeypatch)

    answer = danger.happens(scene, monkeypatch)

    assert re.search(danger.guards[alone], answer, re.DOTALL), answer
    scene.ask("delete from public.house where id = 'stray'")
    assert scene.violations() == []


@pytest.mark.parametrize("danger", DANGERS, ids=[d.happens.__name__ for d in DANGERS])
def test_without_its_guards_the_danger_is_real(scene, monkeypatch, danger):
    for guard in danger.guards:
        OFF[guard](scene, monkeypatch)

    answer = danger.happens(scene, monkeypatch)

    assert any(re.search(danger.breaks, said) for said in [answer, *scene.violations()]), (answer, scene.violations())


def test_every_guard_that_can_be_taken_away_stands_against_something():
    assert {guard for danger in DANGERS for guard in danger.guards} == OFF.keys()
