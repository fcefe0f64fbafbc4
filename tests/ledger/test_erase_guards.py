"""Tests that the database keeps an erasure to its decision: each guard refuses raw SQL, without the code."""

from __future__ import annotations

import pytest
from psycopg2 import errors

from lockstep.adapters.postgres import COMMITTER, transaction
from support.scenes.erasing import KEY, erase_key, feed

SALT = "insert into lockstep.erasure_salt (pipeline) values ('drill') on conflict do nothing"
OPEN = "insert into lockstep.erasure (pipeline, column_name, as_uuid, digest) values ('drill', 'id', false, {digest})"
DIGEST = "repeat('a', 64)"
DECIDE = """insert into lockstep.decision (pipeline, kind, who, why, detail) select 'drill', 'erase', 'me', 'x',
    jsonb_build_object('erasure', erasure_id, 'key', {key}, 'erased', {erased}) from lockstep.erasure"""
SAID, RIGHT = "lockstep.erased_digest(erasure_id)", "digest"
BOUND = "insert into lockstep.erasure_bound select max(erasure_id), 'topic', 9, 100 from lockstep.erasure"
LATER = """insert into lockstep.erased (erasure_id, relation, target, batch_id, stream_id, "offset", rows)
    select max(e.erasure_id), 'public.drill', 'public.drill', 1, 1, 7, 1 from lockstep.erasure e"""
ROLES = ["lockstep_planner", "lockstep_stager", "lockstep_committer", "lockstep_partition", "lockstep_reader"]


@pytest.fixture
def erased(contents, produce):
    """Returns the drill, with one key erased."""
    here = contents()
    feed(produce, here.drill.topic)
    here.drain()
    erase_key(here)
    return here


def done(here, *statements: str) -> None:
    with transaction(here.at.conn, COMMITTER) as cur:
        for statement in statements:
            cur.execute(statement)


@pytest.mark.parametrize(
    "decided", [None, DECIDE.format(key="'b'", erased=SAID), DECIDE.format(key=RIGHT, erased="'c'")]
)
def test_an_erasure_without_the_decision_that_says_what_it_took_is_refused(contents, decided):
    here = contents()
    here.drain()
    with pytest.raises(errors.CheckViolation, match="erasure_is_decided"):
        done(here, SALT, OPEN.format(digest=DIGEST), *([decided] if decided else []))
    done(here, SALT, OPEN.format(digest=DIGEST), DECIDE.format(key=RIGHT, erased=SAID))  # and with it, it passes


@pytest.mark.parametrize("statement", [LATER, BOUND], ids=["rows", "bounds"])
def test_nothing_is_added_to_an_erasure_that_is_decided(erased, statement):
    with pytest.raises(errors.CheckViolation, match="erased_once"):
        done(erased, statement)


@pytest.mark.parametrize(
    "call",
    ["lockstep.erase_rejects(1, '{other}'::bytea[])", "lockstep.erase_said(1, 'refused')"],
    ids=["rejects", "said"],
)
def test_no_reject_error_or_verdict_is_emptied_behind_its_decision(erased, call):
    with pytest.raises(errors.CheckViolation, match="erased_once"):
        done(erased, f"select {call}")


def test_an_erasure_holds_a_digest_and_never_a_key(contents):
    here = contents()
    here.drain()
    with pytest.raises(errors.CheckViolation, match="erasure_keeps_no_key"):
        done(here, SALT, OPEN.format(digest=f"'{KEY}'"))


def test_a_reject_that_lost_its_bytes_keeps_its_digest_and_has_no_bytes(erased):
    for change in ("removed_digest = null", "value = 'x'", "emptied_at = null"):
        with pytest.raises(errors.CheckViolation, match="emptied_is_empty"):
            erased.sql(f"update lockstep.reject set {change} where emptied_at is not null")


def test_a_closed_attempt_keeps_all_but_a_quoted_error(erased):
    for change in ("error = 'another'", "error = 'erased', state = 'failed'", "owner = 'me'"):
        with pytest.raises(errors.CheckViolation, match="closed_once"):
            erased.sql(f"update lockstep.attempt set {change} where closed_at is not null")
    for role in ("lockstep_planner", "lockstep_stager", "lockstep_committer"):
        with pytest.raises(errors.CheckViolation, match="closed_once"):
            erased.sql("update lockstep.attempt set error = 'erased' where closed_at is not null", role)


def test_no_role_changes_what_was_erased_or_what_a_reject_holds(erased):
    second = "select attname from pg_attribute where attrelid = 'lockstep.{}'::regclass and attnum = 2"
    for table in ("erasure", "erasure_bound", "erased", "blank_change", "reject", "verdict"):
        ((column,),) = erased.sql(second.format(table))
        for role in ROLES:
            with pytest.raises(errors.InsufficientPrivilege):
                erased.sql(f'update lockstep.{table} set "{column}" = "{column}"', role)


def test_only_the_committer_erases(erased):
    for role in set(ROLES) - {"lockstep_committer"}:
        for call in ("lockstep.erase_rejects(1, '{}')", "lockstep.erase_said(1, 'x')"):
            with pytest.raises(errors.InsufficientPrivilege):
                erased.sql(f"select {call}", role)
