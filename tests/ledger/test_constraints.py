"""Tests that every named constraint refuses by itself: raw SQL as the owner, without the code's own checks."""

from __future__ import annotations

import re
from typing import Any

import psycopg2
import pytest
from psycopg2 import errors

from feed.test_constraints_of_feeds import REFUSED as OF_FEEDS
from feed.test_constraints_of_relays import REFUSED as OF_RELAYS
from feed.test_constraints_of_sends import REFUSED as OF_SENDS
from ledger.test_constraints_of_archive import REFUSED as OF_ARCHIVE
from ledger.test_constraints_of_hidden_rows import REFUSED as OF_HIDDEN
from ledger.test_constraints_of_lake import REFUSED as OF_LAKE
from ledger.test_constraints_of_parts import REFUSED as OF_PARTS
from lockstep.adapters.postgres import OWNER, transaction
from mutants.catalogue import MUTANTS
from support.fakes.ledger_rows import commit_in
from windows.test_constraints_of_folding import REFUSED as OF_FOLDING
from windows.test_constraints_of_windows import REFUSED as OF_WINDOWS

FULL = {0: (0, 10)}


def stream(ledger) -> dict[str, Any]:
    return {"s": ledger.stream(0)}


def planned(ledger) -> dict[str, Any]:
    s = ledger.stream(0)
    return {"s": s, "b": ledger.planned({s: (0, 10)})}


def opened(ledger) -> dict[str, Any]:
    known = planned(ledger)
    return known | {"t": ledger.opened(known["b"])}


def done(ledger) -> dict[str, Any]:
    s = ledger.stream(0)
    b, t = ledger.done({s: (0, 10)})
    return {"s": s, "b": b, "t": t}


RESULT = """insert into lockstep.result (batch_id, token, stream_id, delivered, written, filtered, rejected, rows, bytes,
    digest_sum, digest_squares, log_start_before, log_start_after, rows_digest, rejects_digest)
    values (%(b)s, %(t)s, %(s)s, {delivered}, {written}, 0, 0, 0, 0, 0, 0, {before}, {after}, 0, 0)"""
COVER = "insert into lockstep.coverage values (%(s)s, int8range({low}, {high}), 'skipped')"
SKIP = """insert into lockstep.decision (pipeline, kind, who, why, detail) select pipeline, 'skip', 'me', 'because',
    jsonb_build_object('stream_id', stream_id, 'from_offset', {low}, 'until_offset', {high})
    from lockstep.stream where stream_id = %(s)s"""
CLAIM = """insert into lockstep.claim (stream_id, offsets, batch_id, expects)
    values (%(s)s, int8range({low}, {high}), %(b)s, '{e}')"""


def lost(ledger) -> dict[str, Any]:
    s = ledger.stream(0)
    ledger.covered(s, 0, 10, "loss")
    return {"s": s}


def truncated(ledger) -> dict[str, Any]:
    old = ledger.stream(0)
    ledger.retired(old)
    ledger.stream(0, incarnation=1, epoch=1)
    return {"s": old}


def requested(ledger) -> dict[str, Any]:
    s = ledger.stream(0)
    ledger.planned({s: (0, 10)}, lane="fill")
    ledger.ask("insert into lockstep.request_window values (1, %(s)s, int8range(0, 10)) returning 1", s=s)
    return {"s": s}


def closed_request(ledger) -> dict[str, Any]:
    known = requested(ledger)
    ledger.ask("update lockstep.request set closed_at = now() returning 1")
    return known


TARGET_ROWS = """insert into lockstep.target_rows (batch_id, token, place, target, stream_id, rows, records)
    values (%(b)s, %(t)s, {place}, 'public.t{place}', %(s)s, {rows}, {records})"""


def for_several(ledger) -> dict[str, Any]:
    """Gives two targets counts of five and three rows. The result does not name them."""
    known = opened(ledger)
    for place, rows in enumerate((5, 3)):
        ledger.ask(TARGET_ROWS.format(place=place, rows=rows, records=3) + " returning 1", **known)
    ledger.ask(RESULT.format(delivered=0, written=0, before=0, after=0) + " returning 1", **known)
    return known


def guaranteed(ledger, guarantee: str) -> dict[str, Any]:
    """Returns an attempt whose definition names this guarantee, ready to commit."""
    known = opened(ledger)
    ledger.ask(
        """insert into lockstep.definition (definition_hash, pipeline, document, code_version)
           select %(g)s, pipeline, jsonb_build_object('guarantee', jsonb_build_object('kind', %(g)s)), '1'
           from lockstep.definition limit 1 returning 1""",
        g=guarantee,
    )
    ledger.ask("update lockstep.attempt set definition_hash = %(g)s returning 1", g=guarantee)
    ledger.ask(RESULT.format(delivered=0, written=0, before=0, after=0) + " returning 1", **known)
    return known


CONTRIBUTE = """insert into lockstep.contribution (target, key, batch_id, stream_id, records, "offset", ordinal, totals)
    values ('public.spend', '{key}', %(b)s, {stream}, {records}, 9, 0, '{{}}')"""


def contributed(ledger) -> dict[str, Any]:
    known = opened(ledger)
    ledger.ask(CONTRIBUTE.format(key='["c-1"]', stream="%(s)s", records=3) + " returning 1", **known)
    return known


def taken_over(ledger) -> dict[str, Any]:
    """Makes a batch that contributed and is committed, and a replay of it that has only its commit row."""
    known = contributed(ledger)
    ledger.committed(known["b"], known["t"])
    replay = ledger.planned({known["s"]: (0, 10)}, lane="replay")
    token = ledger.opened(replay)
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(
            RESULT.format(delivered=0, written=0, before=0, after=0), {"b": replay, "t": token, "s": known["s"]}
        )
        cur.execute(
            "insert into lockstep.commit (batch_id, stream_id, token, definition_hash) values (%s, %s, %s, 'd1')",
            (replay, known["s"], token),
        )
    return known | {"r": replay}


def hour(ledger) -> dict[str, Any]:
    """Makes a stream of which eight offsets are committed and two skipped.

    The first five are those of the hour until ten.
    """
    s = ledger.stream(0)
    ledger.done({s: (0, 8)})
    ledger.covered(s, 8, 10, "skipped")
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(HOUR.format(until="10:00", low=0, high=5), {"s": s})
    return {"s": s}


def told(ledger) -> dict[str, Any]:
    """Makes an hour that was announced twice, and that has changed once after the first time."""
    known = hour(ledger)
    ledger.ask(TELL.format(revision=1) + " returning 1")
    ledger.ask(CHANGE.format(revision=1, batch="1") + " returning 1")
    ledger.ask(TELL.format(revision=2) + " returning 1")
    return known


TELL = """insert into lockstep.hour_told (pipeline, until, revision, told_by)
    values ('orders', '2026-05-01 10:00+00', {revision}, 'me')"""
CHANGE = """insert into lockstep.hour_changed (pipeline, until, revision, batch_id)
    values ('orders', '2026-05-01 10:00+00', {revision}, {batch})"""
HOUR = """with kept as (insert into lockstep.complete_hour values ('orders', '2026-05-01 {until}+00', '{{}}'))
    insert into lockstep.hour_offsets values ('orders', '2026-05-01 {until}+00', %(s)s, {low}, {high})"""
COMMIT = """insert into lockstep.commit (batch_id, stream_id, token, definition_hash)
    select %(b)s, %(s)s, %(t)s, definition_hash from lockstep.attempt where token = %(t)s"""
VERDICT = """insert into lockstep.verdict (batch_id, token, definition_hash, success, result)
    values (%(b)s, %(t)s, {definition}, true, '{{}}')"""
DELIVERED = "insert into lockstep.delivery (batch_id, token, effect) values (%(b)s, %(t)s, '{}')"


# constraint → where it stands → what must be refused
CONTENT = """insert into lockstep.content (batch_id, stream_id, place, rows_digest, rejects_digest)
    values (%(b)s, %(s)s, 0, {rows}, {rejects})"""
MANIFEST = """insert into lockstep.manifest (batch_id, token, task, stream_id, delivered, written, rejected, rows, bytes,
    digest_sum, digest_squares, rows_digest, rejects_digest)
    values (%(b)s, %(t)s, 1, %(s)s, 0, 0, 0, 0, 0, 0, 0, {rows}, {rejects})"""


def digested(rows: str = "7", rejects: str = "3", *, staged: str = "7, 3", found: str = "7, 3"):
    """Makes an attempt that is ready to commit, with the digests of its result, its manifest and the commit."""

    def make(ledger) -> dict[str, Any]:
        known = opened(ledger)
        result = RESULT.format(delivered=0, written=0, before=0, after=0).removesuffix("0, 0)")
        s_rows, s_rejects = staged.split(", ")
        f_rows, f_rejects = found.split(", ")
        for statement in (
            f"{result}{rows}, {rejects})",
            MANIFEST.format(rows=s_rows, rejects=s_rejects),
            CONTENT.format(rows=f_rows, rejects=f_rejects),
        ):
            ledger.ask(statement + " returning 1", **known)
        return known

    return make


def linked(ledger) -> dict[str, Any]:
    """Makes a commit, a decision and a request, each in a link, after the link of the ledger."""
    s = ledger.stream(0)
    ledger.done({s: (0, 10)})
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(WRITE_DECISION)
        cur.execute(WRITE_REQUEST)
        cur.execute("select lockstep.seal(pipeline, 9) from lockstep.stream")
    return {"s": s}


WRITE_DECISION = """insert into lockstep.decision (pipeline, kind, who, why)
    select pipeline, 'pause', 'me', 'x' from lockstep.stream"""
WRITE_REQUEST = """insert into lockstep.request (pipeline, lane, token, who, why)
    select pipeline, 'replay', 9, 'me', 'x' from lockstep.stream"""
LINK_AGAIN = """insert into lockstep.link (pipeline, number, batch_id, stream_id, decision_id, request_id, ledger_id, digest)
    select pipeline, 9, batch_id, stream_id, decision_id, request_id, ledger_id, digest from lockstep.link
    where {} is not null"""
SHAPE = "insert into lockstep.shape (hash, target, columns) values ('h', 'public.t', '[]')"
REFUSED = [
    ("one_log", truncated, "insert into lockstep.boundary values (%(s)s, now(), 5)"),
    ("one_log", truncated, "insert into lockstep.coverage values (%(s)s, int8range(0, 5), 'loss')"),
    ("contents_known", digested(rows="null"), COMMIT),
    ("contents_known", digested(rejects="null"), COMMIT),
    ("contents_unchanged", digested(found="8, 3"), COMMIT),
    ("contents_unchanged", digested(found="7, 4"), COMMIT),
    ("contents_unchanged", digested(staged="6, 3"), COMMIT),
    ("contents_unchanged", digested(staged="7, 2"), COMMIT),
    ("link_once", linked, LINK_AGAIN.format("batch_id")),
    ("decision_link_once", linked, LINK_AGAIN.format("decision_id")),
    ("request_link_once", linked, LINK_AGAIN.format("request_id")),
    ("ledger_link_once", linked, LINK_AGAIN.format("ledger_id")),
    ("one_ledger", linked, "insert into lockstep.ledger default values"),
    (
        "one_record",
        linked,
        "insert into lockstep.link (pipeline, number, digest) select pipeline, 9, 'x' from lockstep.stream",
    ),
    (
        "one_record",
        linked,
        LINK_AGAIN.format("decision_id").replace(
            "batch_id, stream_id, decision_id, request_id, ledger_id, digest from",
            "1, null, null, null, null, digest from",
        ),
    ),
    ("one_shape", stream, f"{SHAPE}, ('h', 'public.u', '[]')"),
    (
        "appended_has_digest",
        planned,
        f"{SHAPE}; insert into lockstep.content values (%(b)s, %(s)s, 0, 0, 0, (select max(shape_id) from lockstep.shape))",
    ),
    ("results_first", lambda ledger: guaranteed(ledger, "Idempotent"), COMMIT),
    ("results_first", lambda ledger: guaranteed(ledger, "AtLeastOnce"), COMMIT),
    ("offsets_first", lambda ledger: guaranteed(ledger, "AtMostOnce"), DELIVERED),
    ("commit_names_its_definition", opened, COMMIT.replace("definition_hash from", "null from")),
    (
        "committed_as_staged",
        lambda ledger: guaranteed(ledger, "PerBatch"),
        COMMIT.replace("definition_hash from", "'d1' from"),
    ),
    ("verdict_names_its_definition", opened, VERDICT.format(definition="null")),
    ("judged_as_staged", opened, VERDICT.format(definition="'another'")),
    ("half_open", stream, "insert into lockstep.arrival values ('t', %(s)s, int8range(5, 5), 1, 1)"),
    ("name_is_identifier", stream, "insert into lockstep.pipeline (name) values ('Robert; drop')"),
    ("not_before_start", stream, "update lockstep.stream set position = -1 where stream_id = %(s)s"),
    (
        "one_stream_an_epoch",
        stream,
        """insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation,
        epoch, start_offset, position, retired_at) select pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch,
        start_offset, position, now() from lockstep.stream""",
    ),
    (
        "one_open_stream",
        stream,
        """insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation,
        epoch, start_offset, position) select pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch + 1,
        start_offset, position from lockstep.stream""",
    ),
    ("half_open", planned, "update lockstep.batch_range set offsets = 'empty'"),
    ("loss_stays", lost, "delete from lockstep.coverage where stream_id = %(s)s"),
    ("loss_stays", lost, "update lockstep.coverage set kind = 'skipped' where stream_id = %(s)s"),
    ("no_window_twice", requested, "insert into lockstep.request_window values (1, %(s)s, int8range(9, 12))"),
    ("closed_once", closed_request, "update lockstep.request set closed_at = null"),
    (
        "rehearsed_is_preview",
        requested,
        "insert into lockstep.rehearsal (request_id, content_hash, difference) values (1, 'x', '{}')",
    ),
    ("half_open", planned, "update lockstep.batch_range set offsets = int8range(-1, 5)"),
    ("half_open", planned, "update lockstep.batch_range set offsets = int8range(3, null)"),
    ("half_open", planned, "update lockstep.claim set offsets = int8range(null, 5)"),
    ("half_open", stream, "insert into lockstep.coverage values (%(s)s, 'empty', 'skipped')"),
    ("half_open", stream, COVER.format(low=-3, high=2)),
    (
        "live_has_no_request",
        stream,
        """insert into lockstep.batch (pipeline, lane, owner, lease_until)
        values ('orders', 'replay', 'me', now())""",
    ),
    ("closed_has_a_time", planned, "update lockstep.batch set state = 'abandoned'"),
    ("route_says_why", opened, "update lockstep.attempt set route = '{}'"),
    ("route_says_why", opened, """update lockstep.attempt set route = '{"way": "boat", "because": "it floats"}'"""),
    ("route_says_why", opened, """update lockstep.attempt set route = '{"way": "spark", "because": ""}'"""),
    ("closed_attempt_has_a_time", opened, "update lockstep.attempt set state = 'failed'"),
    ("index_of_a_task", opened, "update lockstep.attempt set map_index = 0"),
    ("index_of_a_task", opened, "update lockstep.attempt set task_id = 'work', map_index = -1"),
    (
        "one_unfinished_live_batch",
        planned,
        """insert into lockstep.batch (pipeline, lane, owner, lease_until)
        values ('orders', 'live', 'me', now())""",
    ),
    (
        "token_once",
        opened,
        """insert into lockstep.attempt (batch_id, token, definition_hash, owner, lease_until)
        select b, %(t)s, 'd1', 'me', now() from (insert_other()) as o (b)""",
    ),
    ("reconciles", opened, RESULT.format(delivered=5, written=4, before=0, after=0)),
    ("records_have_rows", opened, TARGET_ROWS.format(place=0, rows=1, records=2)),
    (
        "one_row_a_record",
        opened,
        TARGET_ROWS.format(place=0, rows=2, records=1)
        .replace("records)", "records, offsets)", 1)
        .replace(", 1)", ", 1, 9)"),
    ),
    (
        "every_target",
        for_several,
        "insert into lockstep.commit (batch_id, stream_id, token, definition_hash) values (%(b)s, %(s)s, %(t)s, 'd1')",
    ),
    (
        "quarantined_are_rejected",
        opened,
        RESULT.format(delivered=0, written=0, before=0, after=0)
        .replace("rejected, rows", "rejected, rows, quarantined", 1)
        .replace("0, 0, 0, 0, 0, 0, 0, 0, 0, 0)", "0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0)"),
    ),
    ("nothing_trimmed", opened, RESULT.format(delivered=0, written=0, before=5, after=4)),
    ("contributes_once", contributed, CONTRIBUTE.format(key='["c-1"]', stream="%(s)s", records=3)),
    ("key_is_whole", opened, CONTRIBUTE.format(key='["c-1", null]', stream="%(s)s", records=3)),
    ("folded_by_update", opened, CONTRIBUTE.format(key='["c-1"]', stream="%(s)s", records=0)),
    ("contributes_what_it_claims", opened, CONTRIBUTE.format(key='["c-1"]', stream="%(s)s + 1", records=3)),
    ("contributes_what_it_claims", done, CONTRIBUTE.format(key='["c-1"]', stream="%(s)s", records=3)),
    ("withdrawn_whole", taken_over, "update lockstep.coverage set batch_id = %(r)s where batch_id = %(b)s"),
    ("claimed_once", planned, CLAIM.format(low=9, high=12, e="nothing")),
    ("expects_whom", planned, CLAIM.format(low=10, high=12, e="batch")),
    ("batch_is_named", stream, "insert into lockstep.coverage values (%(s)s, int8range(0, 5), 'batch')"),
    ("covered_by_commit", planned, "insert into lockstep.coverage values (%(s)s, int8range(0, 10), 'batch', %(b)s)"),
    ("no_offset_twice", done, COVER.format(low=9, high=10)),
    ("no_gap", stream, "update lockstep.stream set position = 5 where stream_id = %(s)s"),
    ("no_gap", done, "update lockstep.stream set position = 0 where stream_id = %(s)s"),
    ("no_gap", done, "delete from lockstep.coverage"),
    ("no_gap", done, "update lockstep.coverage set offsets = int8range(0, 9)"),
    (
        "no_gap",
        stream,
        """insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation,
        epoch, start_offset, position) values ('orders', 'c', 'orders.v1', 'i', 7, 0, 0, 3, 4)""",
    ),
    ("not_past_position", stream, f"{SKIP.format(low=0, high=5)}; {COVER.format(low=0, high=5)}"),
    ("given_up_by_decision", stream, COVER.format(low=0, high=5)),
    ("given_up_by_decision", stream, f"{SKIP.format(low=0, high=4)}; {COVER.format(low=0, high=5)}"),
    ("given_up_is_told", stream, SKIP.format(low=5, high=5)),
    ("closed_once", stream, "update lockstep.stream set epoch = 5"),
    ("closed_once", done, "update lockstep.batch set state = 'abandoned'"),
    ("closed_once", opened, "update lockstep.batch set token = 0"),
    ("closed_once", done, "update lockstep.attempt set error = 'no'"),
    (
        "committed_whole",
        planned,
        """with gone as (delete from lockstep.claim)
        update lockstep.batch set state = 'committed', closed_at = now()""",
    ),
    ("committed_whole", planned, "update lockstep.batch set state = 'abandoned', closed_at = now()"),
    ("whole_hour", stream, HOUR.format(until="10:30", low=0, high=0)),
    (
        "hour_is_over",
        stream,
        "insert into lockstep.complete_hour values ('orders', date_trunc('hour', now()) + interval '1 hour', '{}')",
    ),
    ("hour_is_whole", stream, "insert into lockstep.complete_hour values ('orders', '2026-05-01 10:00+00', '{}')"),
    ("hours_in_order", hour, HOUR.format(until="12:00", low=5, high=8)),
    ("hours_in_order", hour, HOUR.format(until="09:00", low=0, high=0)),
    ("hours_tile", hour, HOUR.format(until="11:00", low=6, high=8)),
    ("hours_tile", hour, HOUR.format(until="11:00", low=4, high=8)),
    ("half_open", hour, HOUR.format(until="11:00", low=5, high=4)),
    ("hour_is_covered", hour, HOUR.format(until="11:00", low=5, high=9)),
    ("hour_is_covered", hour, HOUR.format(until="11:00", low=5, high=11)),
    ("hour_is_covered", stream, HOUR.format(until="11:00", low=1, high=1)),
    ("half_open", requested, "insert into lockstep.request_window values (1, %(s)s, 'empty')"),
    ("told_for_a_change", hour, TELL.format(revision=2)),
    ("told_for_a_change", hour, TELL.format(revision=0)),
    ("told_for_a_change", told, TELL.format(revision=3)),
    ("hour_told_pkey", told, TELL.format(revision=2)),
    ("hour_changed_pipeline_until_revision_fkey", told, CHANGE.format(revision=3, batch="1")),
    ("one_change", told, CHANGE.format(revision=2, batch="null")),
    ("spark_ui_is_web", opened, "update lockstep.attempt set spark_ui = 'javascript:alert(1)'"),
    ("server_says_nothing", opened, "insert into lockstep.spark_run values (%(b)s, %(t)s, 'server', 1)"),
    ("server_says_nothing", opened, "insert into lockstep.spark_run values (%(b)s, %(t)s, 'server', null, 1, 2, 0)"),
]


PLACES = [sum(other == name for other, _, _ in REFUSED[:i]) for i, (name, _, _) in enumerate(REFUSED)]


@pytest.mark.parametrize(
    ("name", "standing", "statement"), REFUSED, ids=[f"{n}-{i}" for (n, _, _), i in zip(REFUSED, PLACES, strict=True)]
)
def test_a_constraint_refuses_by_itself(ledger, conn, name, standing, statement):
    known = standing(ledger)
    if "insert_other()" in statement:
        other = ledger.planned({ledger.stream(1): (0, 1)}, lane="replay")
        statement = statement.replace("(insert_other())", f"(select {other})")
    with pytest.raises(psycopg2.IntegrityError) as refused, transaction(conn, OWNER) as cur:
        cur.execute(statement, known)
    said = {refused.value.diag.constraint_name, *str(refused.value).replace(":", " ").split()}
    assert name in said or (name == "committed_whole" and "no_claim_left" in said), refused.value


def test_a_commit_with_the_digests_that_were_staged_passes(ledger, conn):
    known = digested()(ledger)
    with transaction(conn, OWNER) as cur:
        cur.execute(COMMIT, known)
        assert cur.rowcount == 1
        conn.rollback()


def test_a_closed_batch_leaves_no_claim(ledger, conn):
    planned(ledger)
    with pytest.raises(errors.CheckViolation, match="no_claim_left"), transaction(conn, OWNER) as cur:
        cur.execute("update lockstep.batch set state = 'abandoned', closed_at = now()")


def test_only_the_newest_attempt_of_a_planned_batch_commits(ledger, conn):
    known = opened(ledger)
    ledger.opened(known["b"])
    with pytest.raises(errors.CheckViolation, match="newest_attempt"), transaction(conn, OWNER) as cur:
        commit_in(cur, known["b"], known["t"])


def test_a_commit_is_said_once(ledger, conn):
    known = done(ledger)
    with pytest.raises(errors.CheckViolation, match="newest_attempt"), transaction(conn, OWNER) as cur:
        cur.execute(
            "insert into lockstep.commit (batch_id, stream_id, token, definition_hash) values (%(b)s, %(s)s, %(t)s, 'd1')",
            known,
        )


def test_a_preview_has_no_commit(ledger, conn):
    known = opened(ledger)
    requested = ledger.planned({known["s"]: (20, 30)}, lane="replay")
    ledger.ask("update lockstep.request set preview = true returning 1")
    token = ledger.opened(requested)
    with pytest.raises(errors.CheckViolation, match="preview_commits_nothing"), transaction(conn, OWNER) as cur:
        commit_in(cur, requested, token)


def test_what_was_trimmed_while_it_was_read_has_no_commit(ledger, conn):
    known = opened(ledger)
    with transaction(conn, OWNER) as cur:
        cur.execute(RESULT.format(delivered=0, written=0, before=0, after=1), known)
    with pytest.raises(errors.CheckViolation, match="read_whole"), transaction(conn, OWNER) as cur:
        cur.execute(
            "insert into lockstep.commit (batch_id, stream_id, token, definition_hash) values (%(b)s, %(s)s, %(t)s, 'd1')",
            known,
        )


def test_what_one_of_two_targets_was_never_told_of_has_no_commit(ledger, conn):
    one, other = ledger.stream(0), ledger.stream(1)
    batch = ledger.planned({one: (0, 4), other: (0, 4)})
    token = ledger.opened(batch)
    known = {"b": batch, "t": token}
    for place, stream in ((0, one), (0, other), (1, one)):  # the second target's rows of the other stream are missing
        ledger.ask(TARGET_ROWS.format(place=place, rows=2, records=2) + " returning 1", **known, s=stream)
    with pytest.raises(errors.CheckViolation, match="every_target"), transaction(conn, OWNER) as cur:
        commit_in(cur, batch, token, delivered=4)


HISTORY = [
    "definition",
    "batch_range",
    "call",
    "manifest",
    "source_manifest",
    "verdict",
    "result",
    "target_rows",
    "shape",
    "content",
    "commit",
    "decision",
    "delivery",
    "request_call",
    "rehearsal",
    "complete_hour",
    "hour_offsets",
    "hour_told",
    "hour_changed",
    "erasure_salt",
    "erasure",
    "erasure_bound",
    "erased",
    "blank_change",
    "spark_run",
    "spark_stage",
    "feed",
    "change_set",
    "part",
    "answer",
]


@pytest.mark.parametrize("table", HISTORY)
@pytest.mark.parametrize(
    "role", ["lockstep_planner", "lockstep_stager", "lockstep_committer", "lockstep_partition", "lockstep_reader"]
)
def test_history_is_insert_only_for_everybody(conn, table, role):
    for verb in ("delete from lockstep.{}", "truncate lockstep.{}"):
        with pytest.raises(errors.InsufficientPrivilege), transaction(conn, role) as cur:
            cur.execute(verb.format(table))
    with transaction(conn, OWNER) as cur:
        cur.execute(
            "select count(*) from information_schema.column_privileges "
            "where table_schema = 'lockstep' and table_name = %s and grantee = %s and privilege_type = 'UPDATE'",
            (table, role),
        )
        assert cur.fetchone()[0] == 0


@pytest.mark.parametrize(
    ("guarantee", "first", "then"),
    [("Idempotent", DELIVERED, COMMIT), ("AtMostOnce", COMMIT, DELIVERED)],
    ids=["results first", "offsets first"],
)
def test_the_moves_of_a_guarantee_pass_in_their_order(ledger, conn, guarantee, first, then):
    known = guaranteed(ledger, guarantee)
    with transaction(conn, OWNER) as cur:
        cur.execute(first, known)
        cur.execute(then, known)
        assert cur.rowcount == 1
        conn.rollback()


MAY_NOT = [
    ("lockstep_planner", "insert into lockstep.commit (batch_id, stream_id, token) values (1, 1, 1)"),
    ("lockstep_planner", "insert into lockstep.attempt (batch_id) values (1)"),
    ("lockstep_stager", "insert into lockstep.commit (batch_id, stream_id, token) values (1, 1, 1)"),
    ("lockstep_stager", "update lockstep.stream set position = 1"),
    ("lockstep_stager", "insert into lockstep.coverage values (1, int8range(0, 1), 'skipped')"),
    ("lockstep_committer", "insert into lockstep.batch (pipeline) values ('x')"),
    ("lockstep_committer", "update lockstep.batch set token = 9"),
    ("lockstep_committer", "insert into lockstep.complete_hour values ('x', now(), '{}')"),
    ("lockstep_committer", CHANGE.format(revision=1, batch="1")),
    ("lockstep_committer", "select lockstep.note_change(array[1], array[int8range(0, 1)], 1, null)"),
    ("lockstep_committer", "update lockstep.contribution set records = 1"),
    ("lockstep_stager", "delete from lockstep.contribution"),
    ("lockstep_committer", "insert into lockstep.result (batch_id) values (1)"),
    ("lockstep_reader", "update lockstep.pipeline set paused = true"),
    ("lockstep_reader", "create table lockstep_staging.x (i int)"),
]


@pytest.mark.parametrize(("role", "statement"), MAY_NOT)
def test_a_role_may_not_do_anothers_work(conn, role, statement):
    with pytest.raises(errors.InsufficientPrivilege), transaction(conn, role) as cur:
        cur.execute(statement)


def test_every_named_constraint_has_a_test_that_shows_it_refusing(ledger):
    shown = {name for name, _, _ in REFUSED} | {"no_claim_left", "newest_attempt"}
    shown |= {"one_version", "own_range", "one_unit"}  # test_versions.py and test_per_partition.py
    shown |= {"same_timeline", "nonce_with_token", "nonce_once"}  # test_timelines.py
    shown |= {
        "one_owner",
        "owned_once",
        "commit_by_owner",
        "shares_with_others",
        "target_is_qualified",
    }  # test_owners.py
    shown |= {"noted_for_the_chain", "recorded_session", "opened_as_named"}  # test_chain.py and test_who_decided.py
    shown |= {"erasure_is_decided", "erased_once", "erasure_keeps_no_key", "emptied_is_empty"}  # test_erase_guards.py
    shown |= {"erased_stays_out"}  # test_erase.py
    shown |= {"change_is_noted"}  # test_hours_told_again.py
    shown |= {"forgotten_is_decided", "forgotten_rests", "forget_is_told"}  # test_forgotten.py
    shown |= {"former_name_rests"}  # test_renamed.py
    shown |= {"alter_is_told"}  # test_evolution.py
    shown |= {"hashes_are_told"}  # test_row_hashes.py
    shown |= {"recount_is_told"}  # test_constraints_of_counts.py
    shown |= {"revision_begins_at_0"}  # test_constraints_of_windows.py: it refuses as revision_by_one
    shown |= {"adopt_is_told", "adopted_first", "adopted_as_decided"}  # test_adopted.py
    shown |= {
        "topic_is_told",
        "topic_by_decision",
        "begins_where_it_ended",
        "key_of_one_topic",
    }  # test_constraints_of_topics.py
    shown |= {"move_is_told", "moved_at_rest", "moved_as_decided", "moved_by_decision"}  # test_constraints_of_moves.py
    shown |= {"first_topic_is_another", "one_open_stream_a_line", "one_epoch_a_line"}  # the same
    shown |= {"promote_is_told", "promoted_alone", "withdrawn_is_promoted"}  # test_promoted.py
    shown |= {name for name, _ in OF_FEEDS} | {"commit_is_told"}  # feed/test_constraints_of_feeds.py
    shown |= {name for name, _ in OF_RELAYS} | {name for name, _ in OF_SENDS}  # the same of relays and sends
    shown |= {name for name, _ in (*OF_WINDOWS, *OF_FOLDING)}  # windows/test_constraints_of_*.py
    shown |= {name for name, _ in OF_ARCHIVE}  # test_constraints_of_archive.py
    shown |= {name for name, _ in OF_HIDDEN}  # test_constraints_of_hidden_rows.py
    shown |= {name for name, _ in OF_PARTS}  # test_constraints_of_parts.py
    shown |= {name for name, _ in OF_LAKE} | {"pointer_with_offsets", "offsets_with_pointer"}  # the same of the lake
    shown |= {"tables_agree"}  # there, too
    shown |= {"dead_stay_dead"}  # house/test_forgotten_deletions.py
    shown |= {"truncation_stays", "truncated_is_empty"}  # simulation/test_truncated_source.py
    shown |= {"timeline_by_decision", "timeline_once"}  # feed/test_feed_timelines.py
    shown |= {"memory_stays", "owner_stays", "paused_by_decision"}  # test_memory_stays.py
    shown |= {"begins_by_decision", "ends_by_decision", "upkept_stays", "read_again"}  # test_streams_by_decision.py
    shown |= {"gone_by_decision", "archived_below_its_place"}  # lake/test_own_folders.py
    shown |= {"lifted_is_noted"}  # test_given_up.py
    shown |= {"one_definition"}  # the primary key says it, too: it is there for foreign keys to refer to
    assert named(ledger) - shown == set()


def test_every_named_constraint_has_a_mutant(ledger):
    spoken_of = {word for m in MUTANTS for word in re.findall(r"\w+", f"{m.name} {m.changes} {m.red}")}
    # No guards: foreign keys need the first to refer to, and the trigger of folding the second to find its row.
    assert named(ledger) - spoken_of == {"one_definition", "folded_once"}


def named(ledger) -> set[str]:
    """Returns the names of the ledger's constraints, triggers and unique indexes."""
    found = ledger.ask(
        """select conname from pg_constraint c where connamespace = 'lockstep'::regnamespace and conislocal
             and conname !~ '_(fkey|pkey|check|not_null)[0-9]*$' and contype <> 'n'
           union select tgname from pg_trigger t join pg_class c on c.oid = t.tgrelid
             where c.relnamespace = 'lockstep'::regnamespace and not tgisinternal
           union select indexrelid::regclass::text from pg_index i join pg_class c on c.oid = i.indrelid
             where c.relnamespace = 'lockstep'::regnamespace and indisunique and not indisprimary
               and not exists (select 1 from pg_constraint k where k.conindid = i.indexrelid)"""
    )
    return {name.removeprefix("lockstep.") for (name,) in found}
