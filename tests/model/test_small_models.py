"""Tests that the small models keep their promises, and that each breaks the right one without its guards."""

from __future__ import annotations

import shutil

import pytest

from model.search import first_broken

pytestmark = pytest.mark.skipif(
    not (shutil.which("spin") and shutil.which("gcc")), reason="needs spin and gcc: apt-get install spin gcc"
)

ONE_LOG = "-DELECTIONS=0 -DRECORDS=3 -DATTEMPTS=2"
CLAIMS, OLD_LOOK, COVERED = (
    "-DNO_LOOK -DNO_CLAIMED_ONCE",
    "-DCOVERAGE_FIRST -DNO_SECOND_LOOK",
    "-DNO_OWNER -DNO_OFFSET_TWICE",
)
AT_WORK = "-DNO_ABANDON -DNO_COMPARE_AND_SET"
SKIPPED = "-DNO_LOCKED_POSITION -DNO_PASS_OVER_COMPARED"
TWICE = "-DNO_PRIMARY_KEY -DNO_COMPARE_AND_SET -DNO_OFFSET_TWICE"
HOLDS = None
# model, guards that are taken away, which promise breaks
SAFETY = [
    ("timelines", "", HOLDS),
    ("timelines", "-DNO_NONCE_IN_FENCE", HOLDS),
    ("timelines", "-DNO_SAME_TIMELINE", HOLDS),
    ("timelines", "-DNO_NONCE_IN_NAME", HOLDS),
    ("timelines", "-DNO_NONCE_IN_FENCE -DNO_SAME_TIMELINE", "own_timeline"),
    ("timelines", "-DNO_NONCE_IN_ANSWER", "told_truly"),
    ("timelines", "-DCOUNTS_TOO_FEW_ALONE", HOLDS),
    ("timelines", "-DNO_NONCE_IN_NAME -DCOUNTS_TOO_FEW_ALONE", "no_duplicate"),
    ("timelines", "-DNO_COUNT", "none_left_out"),
    ("lanes", "", HOLDS),
    ("lanes", f"{CLAIMS} {COVERED}", "replaced_as_planned"),
    ("lanes", f"-DDATA_ONLY {CLAIMS} {COVERED}", "no_duplicate"),
    ("lanes", f"-DDATA_ONLY {OLD_LOOK} {COVERED}", "no_duplicate"),
    ("lanes", "-DNO_FENCE -DNO_NEWEST", "not_abandoned"),
    ("lanes", f"{AT_WORK} -DNO_OFFSET_TWICE", "replaced_as_planned"),
    ("lanes", "-DNO_STATE_LOOK", "told_truly"),
    ("lanes", f"{SKIPPED} -DNO_OFFSET_TWICE", "no_gap"),
    ("lanes", "-DFILL_MOVES -DNO_GAP", "only_forward"),
    ("ranges", "", HOLDS),
    ("ranges", "-DNO_FENCE -DNO_NEWEST", "only_newest"),
    ("ranges", "-DNO_SHARE -DNO_NEWEST", "only_newest"),
    ("ranges", "-DDATA_ONLY -DNO_FENCE -DNO_NEWEST", "stays"),
    ("ranges", f"-DDATA_ONLY -DNO_FOUND {TWICE}", "no_duplicate"),
    ("ranges", f"-DDATA_ONLY -DNO_RANGE_LOCK {TWICE}", "no_duplicate"),
    ("ranges", "-DNO_WHOLE -DNO_COMMITTED_WHOLE", "whole"),
    ("ranges", "-DNO_CLOSE_FENCE", "only_newest"),
    ("once", "", HOLDS),
    ("once", "-DNO_CLEAR -DNO_LOOK", "whole"),
    *(
        pytest.param("once", flags, broken, marks=pytest.mark.long)
        for flags, broken in (
            ("-DNO_HIDE -DNO_LANDED_IS_HIDDEN", "not_early"),
            ("-DNO_FENCE -DNO_NEWEST", "only_newest"),
            ("-DNO_SHARE -DNO_NEWEST", "only_newest"),
            ("-DNO_UNHIDE -DNO_SHOWN_BY_COMMIT", "shown"),
            ("-DNO_REAP_CLEAR -DNO_SHOWN_WITH_COMMIT", "not_early"),
            ("-DNO_FOUND -DNO_LANDED_ONCE -DNO_KEY -DNO_LOOK", "no_duplicate"),
        )
    ),
    ("one_log", "-DKEEPS_IN_FLIGHT", "none_left_out"),
    ("one_log", f"{ONE_LOG} -DNO_EPOCH", "none_left_out"),
    ("one_log", f"{ONE_LOG} -DNO_IDENTITY", "none_left_out"),
    ("one_log", f"{ONE_LOG} -DNO_LOOK_BEHIND", "read_once"),
    ("one_log", f"{ONE_LOG} -DFROM_LOG_START", "read_once"),
    ("one_log", f"{ONE_LOG} -DNO_ABANDON -DNO_FREED", "not_retired"),
    ("one_log", f"{ONE_LOG} -DNO_NEWEST_STREAM -DNO_ONE_LOG", "not_retired"),
]
# One guard of each of these groups is left: it is enough.
ALONE = [
    ("lanes", f"-DNO_CLAIMED_ONCE {COVERED}"),
    ("lanes", f"-DNO_LOOK {COVERED}"),
    ("lanes", f"{CLAIMS} -DNO_OWNER"),
    ("lanes", f"{CLAIMS} -DNO_OFFSET_TWICE"),
    ("lanes", f"-DCOVERAGE_FIRST {COVERED}"),
    ("lanes", f"-DNO_SECOND_LOOK {COVERED}"),
    ("lanes", "-DNO_FENCE"),
    ("lanes", "-DNO_NEWEST"),
    ("lanes", AT_WORK),
    ("lanes", "-DNO_ABANDON -DNO_OFFSET_TWICE"),
    ("lanes", "-DNO_COMPARE_AND_SET -DNO_OFFSET_TWICE"),
    ("lanes", SKIPPED),
    ("lanes", "-DNO_LOCKED_POSITION -DNO_OFFSET_TWICE"),
    ("lanes", "-DNO_PASS_OVER_COMPARED -DNO_OFFSET_TWICE"),
    ("lanes", "-DFILL_MOVES"),
    ("lanes", "-DNO_GAP"),
    ("ranges", "-DNO_FENCE -DNO_SHARE"),
    ("ranges", "-DNO_NEWEST"),
    ("ranges", TWICE),
    ("ranges", "-DNO_FOUND -DNO_RANGE_LOCK -DNO_COMPARE_AND_SET -DNO_OFFSET_TWICE"),
    ("ranges", "-DNO_FOUND -DNO_RANGE_LOCK -DNO_PRIMARY_KEY -DNO_OFFSET_TWICE"),
    ("ranges", "-DNO_FOUND -DNO_RANGE_LOCK -DNO_PRIMARY_KEY -DNO_COMPARE_AND_SET"),
    ("ranges", "-DNO_WHOLE"),
    ("ranges", "-DNO_COMMITTED_WHOLE"),
    *(
        ("once", f"-D{name}")
        for name in ("NO_HIDE", "NO_LANDED_IS_HIDDEN", "NO_FENCE", "NO_SHARE", "NO_NEWEST", "NO_CLEAR")
    ),
    *(
        ("once", f"-D{name}")
        for name in ("NO_LOOK", "NO_UNHIDE", "NO_SHOWN_BY_COMMIT", "NO_REAP_CLEAR", "NO_SHOWN_WITH_COMMIT")
    ),
    *(
        ("once", f"-DNO_LOOK -D{name}")
        for name in ("NO_FOUND -DNO_LANDED_ONCE", "NO_FOUND -DNO_KEY", "NO_LANDED_ONCE -DNO_KEY")
    ),
]
COMPLETE = [("one_log", ONE_LOG), ("timelines", "-DTOKENS=3 -DNONCES=5"), ("lanes", "-DOFFSETS=3 -DBATCHES=5")]
LIVENESS = [
    ("", HOLDS),
    ("-DOFFSETS=4 -DLOSSES=2", HOLDS),
    *((mask, "acceptance cycle") for mask in ("-DNO_EXPIRY", "-DNO_IDLE_END", "-DNO_DOUBLING", "-DTAKES_TURNS")),
    ("-DNO_PATIENCE", "acceptance cycle"),
]


@pytest.mark.parametrize(("model", "flags", "broken"), SAFETY)
def test_a_model_breaks_what_its_last_guard_kept(tmp_path, model, flags, broken):
    assert first_broken(tmp_path, model, flags) == broken


@pytest.mark.long
@pytest.mark.parametrize(("model", "flags"), ALONE)
def test_the_guard_that_is_left_in_a_small_model_keeps_every_promise(tmp_path, model, flags):
    assert first_broken(tmp_path, model, flags) is HOLDS


@pytest.mark.parametrize(("flags", "broken"), LIVENESS)
def test_the_position_comes_to_the_end_as_long_as_nothing_it_rests_on_is_gone(tmp_path, flags, broken):
    assert first_broken(tmp_path, "liveness", flags, is_liveness=True) == broken


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("model", "flags"), COMPLETE, ids=[model for model, _ in COMPLETE])
def test_no_state_of_the_complete_models_breaks_a_promise(tmp_path, model, flags):
    assert first_broken(tmp_path, model, flags, is_large=True) is HOLDS
