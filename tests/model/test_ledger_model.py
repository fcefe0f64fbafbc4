"""Tests that the model of the commit protocol keeps every promise.

Without its guards it breaks the right one.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

MODEL = Path(__file__).parent / "ledger.pml"
SMALL = "-DOFFSETS=2 -DBATCHES=2 -DTOKENS=2 -DCRASHES=1 -DLOSSES=1"
QUIET = SMALL.replace("LOSSES=1", "LOSSES=0")
LANES = "-DOFFSETS=2 -DBATCHES=3 -DTOKENS=3 -DCRASHES=0 -DLOSSES=0"
COMPLETE = [
    "-DOFFSETS=3 -DBATCHES=3 -DTOKENS=2 -DCRASHES=2 -DLOSSES=2",
    "-DOFFSETS=3 -DBATCHES=2 -DTOKENS=3 -DCRASHES=2 -DLOSSES=1",
]
HOLDS = None

pytestmark = pytest.mark.skipif(
    not (shutil.which("spin") and shutil.which("gcc")), reason="needs spin and gcc: apt-get install spin gcc"
)


@dataclass(frozen=True)
class Verdict:
    """The result of the search: the promise that broke first, None when all hold, and the number of states."""

    broken: str | None
    states: int
    seconds: float


def searched(home: Path, flags: str, *, megabytes: int = 1500) -> Verdict:
    """Searches every state that the model can be in. A search that was cut short is no verdict."""
    optimised = "-O2" if flags in COMPLETE else "-O0"
    for command in (
        ["spin", "-a", *flags.split(), str(MODEL)],
        ["gcc", "-w", optimised, "-DSAFETY", "-DCOLLAPSE", f"-DMEMLIM={megabytes}", "-o", "pan", "pan.c"],
    ):
        made = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=120, check=False)
        assert made.returncode == 0, made.stdout + made.stderr
    said = subprocess.run(
        ["./pan", "-m1000000"], cwd=home, capture_output=True, text=True, timeout=1200, check=False
    ).stdout
    broken = re.search(r"pan:1: (?:assertion violated (\w+)|(invalid end state))", said)
    assert broken or (
        " errors: 0" in said and not re.search(r"Search not completed|max search depth too small", said)
    ), said
    states = int(re.search(r"(\d+) states, stored", said)[1])
    seconds = float(re.search(r"elapsed time ([\d.]+)", said)[1])
    return Verdict(broken and (broken[1] or broken[2]), states, seconds)  # type: ignore[arg-type]


FENCE = "-DNO_FENCE -DNO_NEWEST -DNO_CLOSE"
STALE = "-DPOSITIONS_FIRST -DNO_CLAIM_POSITION -DNO_COMPARE_AND_SET"
LEFT_OUT = "-DPLANNER_LEAVES_OUT -DNO_CLAIM_POSITION -DNO_COMPARE_AND_SET"
TWICE = f"-DDATA_ONLY {FENCE} -DNO_COMPARE_AND_SET -DNO_PRIMARY_KEY"
OTHERS = "-DCOVERAGE_FIRST -DNO_SECOND_LOOK"
# masks → configuration → which promise breaks
VERDICTS = [
    ("", SMALL, HOLDS),
    ("", LANES, HOLDS),
    (FENCE, SMALL, "only_newest"),
    ("-DNO_LOCK", QUIET, "only_newest"),
    ("-DNO_LOCK", SMALL, "told_failed_never_commits"),
    ("-DNO_ASK", SMALL, "told_failed_never_commits"),
    ("-DNO_RESOLVE_LOCK", SMALL, "told_failed_never_commits"),
    ("-DBLIND_RETRY -DNO_OWN_COMMIT", SMALL, "told_truly"),
    ("-DNO_STAGING_KEY -DNO_COUNT", SMALL, "no_duplicate"),
    (f"{TWICE} -DNO_OFFSET_TWICE", SMALL, "no_duplicate"),
    (f"{STALE} -DNO_OFFSET_TWICE", SMALL, "no_duplicate"),
    (f"{LEFT_OUT} -DNO_GAP", SMALL, "no_gap"),
    ("-DREPLAY_MOVES -DNO_GAP", LANES, "only_forward"),
    ("-DNO_LOOK -DNO_CLAIMED_ONCE -DNO_OWNER", LANES, "replaced_as_planned"),
    (f"{OTHERS} -DNO_OWNER", LANES, "replaced_as_planned"),
]
# One guard of each of these groups is left: it is enough.
ALONE = [
    ("-DNO_NEWEST -DNO_CLOSE", SMALL),
    ("-DNO_FENCE -DNO_CLOSE", SMALL),
    ("-DNO_FENCE -DNO_NEWEST", SMALL),
    ("-DBLIND_RETRY", SMALL),
    ("-DNO_OWN_COMMIT", SMALL),
    ("-DNO_STAGING_KEY", SMALL),
    ("-DNO_COUNT", SMALL),
    (f"-DDATA_ONLY {FENCE}", SMALL),
    (f"-DDATA_ONLY {FENCE} -DNO_COMPARE_AND_SET -DNO_OFFSET_TWICE", SMALL),
    (TWICE, SMALL),
    ("-DPOSITIONS_FIRST", SMALL),
    ("-DPOSITIONS_FIRST -DNO_CLAIM_POSITION", SMALL),
    (STALE, SMALL),
    ("-DPLANNER_LEAVES_OUT", SMALL),
    ("-DPLANNER_LEAVES_OUT -DNO_CLAIM_POSITION", SMALL),
    (LEFT_OUT, SMALL),
    ("-DNO_GAP", SMALL),
    ("-DNO_OFFSET_TWICE", SMALL),
    ("-DNO_PRIMARY_KEY", SMALL),
    ("-DREPLAY_MOVES", LANES),
    ("-DNO_LOOK -DNO_OWNER", LANES),
    ("-DNO_LOOK -DNO_CLAIMED_ONCE", LANES),
    ("-DNO_CLAIMED_ONCE -DNO_OWNER", LANES),
    (OTHERS, LANES),
    ("-DCOVERAGE_FIRST -DNO_OWNER", LANES),
    ("-DNO_SECOND_LOOK -DNO_OWNER", LANES),
]


def named(masks: str, configuration: str) -> str:
    where = {SMALL: "small", QUIET: "no connection lost", LANES: "lanes"}[configuration]
    return f"{masks.replace('-D', '') or 'every guard'} ({where})"


@pytest.mark.parametrize(("masks", "configuration", "broken"), VERDICTS, ids=[named(*v[:2]) for v in VERDICTS])
def test_the_model_breaks_what_its_last_guard_kept_and_nothing_before(tmp_path, masks, configuration, broken):
    assert searched(tmp_path, f"{configuration} {masks}").broken == broken


@pytest.mark.long
@pytest.mark.parametrize(("masks", "configuration"), ALONE, ids=[named(*a) for a in ALONE])
def test_the_guard_that_is_left_keeps_every_promise(tmp_path, masks, configuration):
    assert searched(tmp_path, f"{configuration} {masks}").broken is HOLDS


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("flags", COMPLETE, ids=["two attempts", "three attempts"])
def test_no_state_of_three_offsets_and_two_crashes_breaks_a_promise(tmp_path, capsys, flags):
    found = searched(tmp_path, flags, megabytes=6000)
    with capsys.disabled():
        print(f"\n{found.states:,} states in {found.seconds:.0f} s")
    assert found.broken is HOLDS
