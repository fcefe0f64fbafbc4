"""Tests if the ledger is as `lockstep migrate` makes it: each case with its reason, on both sides of the line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lockstep.core.health import ledger_findings as judge
from lockstep.core.health.ledger_findings import LedgerFacts, TargetFacts
from lockstep.core.ledger_rights import EXPECTED_ROLES, OF_A_RUN, Grant

KNOWN: dict[int, str] = {1: "a", 2: "b", 3: "c"}
FACTS = LedgerFacts("airflow", dict(KNOWN), dict.fromkeys(EXPECTED_ROLES, True), (), ())
WARNED = ("older form", "1,001 partitions")
TARGET = TargetFacts("public.orders", exists=True, logged=True, writable=True)


def severity(finding) -> str | None:
    return finding and str(finding.severity)


def test_a_ledger_that_was_just_migrated_gives_no_finding():
    assert judge.ledger_findings(FACTS, KNOWN) == [None] * 6
    assert judge.target_findings("orders", TARGET) == [None]


def test_migrations_that_nobody_may_read_are_not_taken_for_right():
    assert judge.ledger_findings(replace(FACTS, applied=None), KNOWN) == [None] * 5


@pytest.mark.parametrize(
    ("roles", "missing", "reason"),
    [
        (EXPECTED_ROLES, "", "all six"),
        (EXPECTED_ROLES[1:], "missing: lockstep_owner", "nobody can migrate"),
        ((), ", ".join(EXPECTED_ROLES), "never migrated here"),
    ],
)
def test_roles(roles, missing, reason):
    found = judge.roles(replace(FACTS, roles=dict.fromkeys(roles, True)))
    assert severity(found) == ("problem" if missing else None), reason
    assert not found or missing in found.found


@pytest.mark.parametrize(
    ("roles", "missing", "reason"),
    [
        (dict.fromkeys(EXPECTED_ROLES, True), "", "all, the owner's too: that login migrates"),
        (dict.fromkeys(OF_A_RUN, True) | {"lockstep_owner": False}, "", "a run does not need the owner's"),
        (dict.fromkeys(EXPECTED_ROLES, True) | {"lockstep_reader": False}, "lockstep_reader", "`status` is refused"),
        (dict.fromkeys(EXPECTED_ROLES, False), "lockstep_planner", "nothing works"),
        ({}, "", "roles that are not there are told elsewhere"),
    ],
)
def test_membership(roles, missing, reason):
    found = judge.membership(replace(FACTS, roles=roles))
    assert severity(found) == ("problem" if missing else None), reason
    assert not found or missing in found.found


def test_a_login_that_may_more_than_a_run_is_told_what():
    found = judge.privileges(replace(FACTS, excess=["createrole", "member of lockstep_owner"]))
    assert severity(found) == "warning"
    assert found.found == "more than a run needs: createrole, member of lockstep_owner"
    assert judge.privileges(FACTS) is None


@pytest.mark.parametrize(
    ("lacking", "words", "reason"),
    [
        ([], "", "nothing lacks"),
        ([Grant("lockstep_committer", "INSERT", "commit")], "lockstep_committer insert commit", "no commit row"),
        ([Grant("lockstep_reader", "USAGE", "")], "lockstep_reader usage of the schema", "it may not even enter"),
        ([Grant("lockstep_reader", "SELECT", f"t{i}") for i in range(9)], "and 6 more", "three are examples enough"),
    ],
)
def test_grants(lacking, words, reason):
    found = judge.grants(replace(FACTS, lacking=lacking))
    assert severity(found) == ("problem" if words else None), reason
    assert not found or words in found.found


def test_what_lacks_is_granted_by_the_remedy_and_what_is_too_much_revoked():
    one = [Grant("lockstep_committer", "INSERT", "commit")]
    granted = judge.grants(replace(FACTS, lacking=one))
    revoked = judge.history_rights(replace(FACTS, rewriting=one))
    assert granted.remedy == "grant insert on lockstep.commit to lockstep_committer"
    assert revoked.remedy == "revoke insert on lockstep.commit from lockstep_committer"


@pytest.mark.parametrize(
    ("roles", "lacking", "expected", "reason"),
    [
        (dict.fromkeys(EXPECTED_ROLES, True), [], True, "it may look at everything"),
        (
            dict.fromkeys(EXPECTED_ROLES, True),
            [Grant("lockstep_committer", "INSERT", "commit")],
            True,
            "another role lacks",
        ),
        (
            dict.fromkeys(EXPECTED_ROLES, True),
            [Grant("lockstep_reader", "SELECT", "stream")],
            False,
            "it may not see that",
        ),
        ({"lockstep_reader": False}, [], False, "the login is no member"),
        ({}, [], False, "there is no such role"),
    ],
)
def test_who_may_look(roles, lacking, expected, reason):
    assert replace(FACTS, roles=roles, lacking=lacking).lets_read("lockstep_reader") is expected, reason


@pytest.mark.parametrize(
    ("rewriting", "expected", "reason"),
    [
        ([], None, "history is insert-only"),
        ([Grant("lockstep_committer", "UPDATE", "result")], "problem", "counts can be made to fit"),
        ([Grant("lockstep_committer", "TRUNCATE", "commit")], "problem", "the witness can be sent away"),
    ],
)
def test_history(rewriting, expected, reason):
    assert severity(judge.history_rights(replace(FACTS, rewriting=rewriting))) == expected, reason


@pytest.mark.parametrize(
    ("applied", "words", "reason"),
    [
        (KNOWN, "", "all of them, as they are"),
        ({}, "0001, 0002, 0003 not applied", "no ledger yet"),
        ({1: "a", 2: "b"}, "0003 not applied", "older than the code"),
        (KNOWN | {4: "d"}, "0004 applied, which this code does not have", "newer than the code"),
        (KNOWN | {2: "x"}, "0002 applied with other content", "edited after it was applied"),
        ({1: "x"}, "0001 applied with other content", "worse than the two that are missing"),
        (KNOWN | {1: "x", 4: "d"}, "0001 applied with other content", "worse than one that is too new"),
    ],
)
def test_migrations(applied, words, reason):
    found = judge.migrations(applied, KNOWN)
    assert severity(found) == ("problem" if words else None), reason
    assert not found or found.found.startswith(words), reason


@pytest.mark.parametrize(
    ("facts", "words", "reason"),
    [
        (TARGET, "", "there, logged, granted"),
        (replace(TARGET, exists=False), "not there", "`migrate NAME` was never called"),
        (replace(TARGET, writable=False), "not granted", "made by somebody else"),
        (replace(TARGET, logged=False), "unlogged", "a crash empties it"),
        (replace(TARGET, is_older_view=True), "older form", "a view drawn by an older Lockstep"),
        (replace(TARGET, partitions=1_000), "", "some months of hours"),
        (replace(TARGET, partitions=1_001), "1,001 partitions", "one for each batch of a minute"),
    ],
)
def test_target(facts, words, reason):
    (found,) = judge.target_findings("orders", facts)
    assert severity(found) == (("warning" if words in WARNED else "problem") if words else None), reason
    assert not found or words in found.found, reason
