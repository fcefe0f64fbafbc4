"""The small models keep their promises, and each breaks the right one when its guards are taken away."""

from __future__ import annotations

import shutil

import pytest

from model.search import first_broken

pytestmark = pytest.mark.skipif(
    not (shutil.which("spin") and shutil.which("gcc")), reason="needs spin and gcc: apt-get install spin gcc"
)

ONE_LOG = "-DELECTIONS=0 -DRECORDS=3 -DATTEMPTS=2"
HOLDS = None
# model, guards that are taken away, which promise breaks
SAFETY = [
    ("timelines", "", HOLDS),
    ("timelines", "-DNO_NONCE_IN_FENCE", HOLDS),
    ("timelines", "-DNO_SAME_TIMELINE", HOLDS),
    ("timelines", "-DNO_NONCE_IN_NAME", HOLDS),
    ("timelines", "-DNO_NONCE_IN_FENCE -DNO_SAME_TIMELINE", "own_timeline"),
    ("timelines", "-DNO_NONCE_IN_ANSWER", "told_truly"),
    ("timelines", "-DNO_NONCE_IN_NAME -DNO_COUNT", "no_duplicate"),
    ("one_log", "-DKEEPS_IN_FLIGHT", "none_left_out"),
    ("one_log", f"{ONE_LOG} -DNO_EPOCH", "none_left_out"),
    ("one_log", f"{ONE_LOG} -DNO_IDENTITY", "none_left_out"),
    ("one_log", f"{ONE_LOG} -DNO_LOOK_BEHIND", "read_once"),
    ("one_log", f"{ONE_LOG} -DFROM_LOG_START", "read_once"),
    ("one_log", f"{ONE_LOG} -DNO_ABANDON -DNO_FREED", "not_retired"),
    ("one_log", f"{ONE_LOG} -DNO_NEWEST_STREAM -DNO_ONE_LOG", "not_retired"),
]
LIVENESS = [
    ("", HOLDS),
    ("-DOFFSETS=4 -DLOSSES=2", HOLDS),
    *((mask, "acceptance cycle") for mask in ("-DNO_EXPIRY", "-DNO_IDLE_END", "-DNO_DOUBLING", "-DTAKES_TURNS")),
    ("-DNO_PATIENCE", "acceptance cycle"),
]


@pytest.mark.parametrize(("model", "flags", "broken"), SAFETY)
def test_a_model_breaks_what_its_last_guard_kept(tmp_path, model, flags, broken):
    assert first_broken(tmp_path, model, flags) == broken


@pytest.mark.parametrize(("flags", "broken"), LIVENESS)
def test_the_position_comes_to_the_end_as_long_as_nothing_it_rests_on_is_gone(tmp_path, flags, broken):
    assert first_broken(tmp_path, "liveness", flags, is_liveness=True) == broken


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("flags", [ONE_LOG, "-DTOKENS=3 -DNONCES=5"], ids=["one log", "timelines"])
def test_no_state_of_the_complete_models_breaks_a_promise(tmp_path, flags):
    assert first_broken(tmp_path, "one_log" if flags == ONE_LOG else "timelines", flags, is_large=True) is HOLDS
