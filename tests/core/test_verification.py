"""Tests that the proof of a verification follows from its checks, and from nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lockstep.core.proof.extent import Part, conclusion, more_to_compare, proofs
from lockstep.core.proof.verification import MOST_NAMED_ERRORS, PromiseCheck, Share, Wrong

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


SOME, NOBODY = replace(VALUES, share=Share(2, 501)), replace(VALUES, share=Share(0, 501))


@pytest.mark.parametrize(
    ("checks", "contents", "part"),
    [
        ([replace(VALUES, share=Share(501, 501))], "log", None),
        ([replace(VALUES, share=Share(0, 0))], "log", None),
        ([SOME], "part", Part(2, 501, "rows", "log", "no")),
        ([SOME, DIGEST], "part", Part(2, 501, "rows", "log", "ledger")),
        ([SOME, VALUES, replace(VALUES, share=Share(1, 501))], "part", Part(1, 501, "rows", "log", "no")),
        ([NOBODY], "no", None),
        ([NOBODY, DIGEST], "ledger", None),
        ([replace(DIGEST, share=Share(3, 5, "segments"))], "part", Part(3, 5, "segments", "ledger", "no")),
        ([replace(DIGEST, share=Share(0, 5, "segments"))], "no", None),
        ([SOME, replace(DIGEST, share=Share(3, 5, "segments"))], "part", Part(2, 501, "rows", "log", "no")),
    ],
)
def test_a_side_is_proved_for_as_many_rows_as_were_compared(checks, contents, part):
    (proof,) = proofs(["a"], checks)
    assert (proof.contents, proof.contents_part) == (contents, part)


def test_what_was_compared_in_part_is_said_in_numbers():
    checks = [GOOD, SOME]
    assert conclusion("p", proofs(["a"], checks), checks) == (
        "p: every check holds. a: coordinates compared with the ledger; contents compared with Kafka for 2 of 501 rows, "
        "the rest not at all."
    )


def test_a_check_that_compared_none_of_the_rows_is_not_made_and_the_next_command_is_named():
    checks = [GOOD, NOBODY]
    assert (NOBODY.is_made, SOME.is_made) == (False, True)
    assert conclusion("p", proofs(["a"], checks), checks) == (
        "p: every check that was made holds. a: coordinates compared with the ledger, contents not compared."
    )
    assert more_to_compare("p", checks) == "lockstep archive p"
    assert more_to_compare("p", [replace(VALUES, share=Share(0, 5, batch=7))]) == "lockstep replay p --batch 7"
    assert more_to_compare("p", [GOOD, VALUES]) is None


def test_the_conclusion_names_every_target():
    checks = [GOOD, VALUES]
    assert conclusion("p", proofs(["a", "b"], checks), checks) == (
        "p: every check holds. a: coordinates compared with the ledger, contents compared with Kafka. "
        "b: coordinates and contents not compared."
    )


@pytest.mark.parametrize(
    ("checks", "rests"),
    [
        ([GOOD, DIGEST], True),
        ([GOOD, DIGEST, VALUES], False),
        ([GOOD, DIGEST, SOME], True),
        ([GOOD, SOME], False),
        ([GOOD], False),
    ],
)
def test_where_digests_alone_speak_for_contents_the_last_line_says_what_they_do_not_prove(checks, rests):
    said = conclusion("p", proofs(["a"], checks), checks)
    assert said.endswith(". The ledger's digests prove contents against accidents, not against a forger.") is rests


def test_all_that_is_wrong_is_counted_and_the_first_is_named():
    wrong = Wrong()
    wrong.add("a")
    assert str(wrong) == "a"
    wrong.extend(["b", "c"], 2)
    assert str(wrong) == "3 are wrong: a; b; c"
    wrong.extend([str(n) for n in range(MOST_NAMED_ERRORS)], 20)
    assert str(wrong) == "23 are wrong: a; b; c; 0; 1; 2; 3; 4; 5; 6; and 13 more"
