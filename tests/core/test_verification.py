"""Tests that the proof of a verification follows from its checks, and from nothing else."""

from __future__ import annotations

import pytest

from lockstep.core.proof.verification import MOST_NAMED_ERRORS, PromiseCheck, Wrong, conclusion, proofs

GOOD = PromiseCheck("rows are all there", ok=True, detail="", proves="coordinates", target="a")
LOG = PromiseCheck("once", ok=True, detail="", proves="coordinates", target="a", against="log")
BAD = PromiseCheck("every row", ok=False, detail="x", proves="coordinates", target="a")
VALUES = PromiseCheck("values", ok=True, detail="", proves="contents", target="a", against="log")
DIGEST = PromiseCheck("digest", ok=True, detail="", proves="contents", target="a")
NONE = PromiseCheck("not compared", ok=True, detail="", target="a")


@pytest.mark.parametrize(
    ("checks", "coordinates", "contents"),
    [
        ([], "no", "no"),
        ([NONE], "no", "no"),
        ([GOOD], "ledger", "no"),
        ([GOOD, LOG], "log", "no"),
        ([GOOD, LOG, BAD], "wrong", "no"),
        ([GOOD, DIGEST], "ledger", "ledger"),
        ([LOG, DIGEST, VALUES], "log", "log"),
        ([LOG, NONE], "log", "no"),
    ],
)
def test_a_target_is_proved_by_its_own_checks_alone(checks, coordinates, contents):
    other = PromiseCheck("other", ok=False, detail="x", proves="contents", target="b")
    (proof, of_other) = proofs(["a", "b"], [*checks, other])
    assert (proof.coordinates, proof.contents) == (coordinates, contents)
    assert (of_other.coordinates, of_other.contents) == ("no", "wrong")


def test_a_check_that_says_nothing_of_what_it_proves_proves_nothing():
    (proof,) = proofs(["a"], [PromiseCheck("new", ok=True, detail="")])
    assert (proof.coordinates, proof.contents) == ("no", "no")


def test_the_conclusion_names_every_target():
    checks = [GOOD, VALUES]
    assert conclusion("p", proofs(["a", "b"], checks), checks) == (
        "p: every check holds. a: coordinates compared with the ledger, contents compared with Kafka. "
        "b: coordinates and contents not compared."
    )


def test_all_that_is_wrong_is_counted_and_the_first_is_named():
    wrong = Wrong()
    wrong.add("a")
    assert str(wrong) == "a"
    wrong.extend(["b", "c"], 2)
    assert str(wrong) == "3 are wrong: a; b; c"
    wrong.extend([str(n) for n in range(MOST_NAMED_ERRORS)], 20)
    assert str(wrong) == "23 are wrong: a; b; c; 0; 1; 2; 3; 4; 5; 6; and 13 more"
