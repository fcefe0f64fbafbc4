"""Tests that the database keeps the promises of event time by itself: raw SQL as the owner, without the code's checks."""

from __future__ import annotations

import json

import psycopg2
import pytest

from lockstep.adapters.postgres import COMMITTER, OWNER, PLANNER, transaction
from support.fakes.ledger_rows import LedgerRows
from support.scenes.undone import roles_that_may

T = "public.by_hour"
BATCH = """insert into lockstep.batch (pipeline, lane, request_id, owner, lease_until, watermark)
    values ('orders', '{lane}', {request}, 'me', now() + interval '1 hour', {watermark}) returning batch_id"""
CLAIM = """insert into lockstep.batch_range values ({batch}, %(s)s, int8range({low}, {high}));
    insert into lockstep.claim (stream_id, offsets, batch_id, expects)
    values (%(s)s, int8range({low}, {high}), {batch}, 'nothing')"""
REQUEST = """insert into lockstep.request (pipeline, lane, token, who, why)
    values ('orders', 'fill', nextval('lockstep.token_seq'), 'me', 'because') returning request_id"""
JUDGED = "insert into lockstep.judged (stream_id, offsets, watermark{more}) values (%(s)s, int8range({low}, {high}), {at}{its})"
WINDOW = (
    f"insert into lockstep.window_state (target, key, ends, revision) values ('{T}', '{{key}}', {{ends}}, {{revision}})"
)
LATE = f"""insert into lockstep.late
    values ('{T}', %(s)s, {{offset}}, 0, '2026-05-01T06:00Z', '2026-05-01T{{ends}}Z', '["a"]', '2026-05-01T06:30Z',
        '2026-05-01T{{watermark}}Z', %(b)s, '{{{{}}}}')"""
DECISION = """insert into lockstep.decision (pipeline, kind, who, why, detail)
    values ('{pipeline}', '{kind}', 'me', 'x', '{{}}') returning decision_id"""
ADMITTED = "update lockstep.judged set admitted_by = {}"
EIGHT, NINE = "'2026-05-01T08:00Z'", "'2026-05-01T09:00Z'"
UNGUARDED_JUDGED = "alter table lockstep.judged disable trigger judged_stays; "
UNGUARDED_BATCH = "alter table lockstep.batch disable trigger watermark_of_plan; "
SHOWN = """update lockstep.window_state set revision = 1 where key = '["a"]'; """
COUNTS = f"""insert into lockstep.contribution (target, key, batch_id, stream_id, records, "offset", ordinal, totals)
    select '{T}', '{{key}}', %(b)s, {{stream}}, 1, 0, 0, '{{{{}}}}' """
GONE = "alter table lockstep.contribution disable trigger contribution_stays; delete from lockstep.contribution;"
OF_ANOTHER = f"""alter table lockstep.contribution disable trigger contributes_what_it_claims;
    with s as (insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch, start_offset,
        position) values ('other', 'c', 't', 'i', 0, 0, 0, 0, 0) returning stream_id)
    {COUNTS.format(key='["a"]', stream="s.stream_id")} from s;"""
UNOWNED = "delete from lockstep.target_owner"
OWNED = f"insert into lockstep.target_owner (store, target, pipeline) values ('', '{T}', 'other')"
NOTHING = {"more": "", "its": ""}
# constraint → what must be refused, by its name
REFUSED = [
    ("watermark_rises", "update lockstep.event_time set watermark = watermark - interval '1 microsecond'"),
    ("watermark_rises", "update lockstep.event_time set watermark = '-infinity'"),
    ("watermark_by_streams", f"update lockstep.event_time set watermark = {NINE}"),
    ("watermark_by_streams", "insert into lockstep.event_time (pipeline, watermark) values ('other', now())"),
    ("time_rises", "update lockstep.stream_time set seen = seen - interval '1 microsecond'"),
    ("time_rises", "update lockstep.stream_time set seen = null"),
    ("time_rises", "update lockstep.stream_time set opened_with = now()"),
    ("not_ahead_of_clock", "update lockstep.stream_time set seen = now() + interval '1 hour'"),
    ("not_ahead_of_clock", "update lockstep.stream_time set idle_at = now() + interval '1 hour'"),
    ("watermark_of_plan", BATCH.format(lane="live", request="null", watermark="null")),
    ("watermark_of_plan", BATCH.format(lane="live", request="null", watermark=NINE)),
    ("watermark_of_plan", BATCH.format(lane="fill", request="%(r)s", watermark=EIGHT)),
    ("watermark_of_plan", f"update lockstep.batch set watermark = {NINE} where batch_id = %(b)s"),
    ("watermark_of_live", UNGUARDED_BATCH + BATCH.format(lane="fill", request="%(r)s", watermark=EIGHT)),
    ("judged_half_open", UNGUARDED_JUDGED + JUDGED.format(low=5, high="null", at=EIGHT, **NOTHING)),
    ("judged_once", JUDGED.format(low=5, high=6, at=EIGHT, **NOTHING)),
    ("judged_by_plan", JUDGED.format(low=10, high=11, at=EIGHT, **NOTHING)),
    ("judged_by_plan", JUDGED.format(low=20, high=30, at="'-infinity'", **NOTHING)),
    ("judged_by_plan", JUDGED.format(low=40, high=50, at=EIGHT, **NOTHING)),
    ("judged_by_plan", JUDGED.format(low=20, high=30, at=EIGHT, more=", admitted_by", its=", 1")),
    ("judged_stays", f"update lockstep.judged set watermark = {NINE}"),
    ("judged_stays", "delete from lockstep.judged"),
    ("judged_stays", ADMITTED.format("%(d_other)s")),
    ("judged_stays", f"{ADMITTED.format('%(d)s')}; {ADMITTED.format('null')}"),
    ("one_state_a_window", WINDOW.format(key='["a"]', ends=EIGHT, revision=0)),
    ("revision_by_one", WINDOW.format(key='["b"]', ends=EIGHT, revision=1)),
    ("revision_by_one", "update lockstep.window_state set revision = 2"),
    ("revision_by_one", f"update lockstep.window_state set ends = {NINE}"),
    ("revision_by_one", SHOWN + "update lockstep.window_state set revision = 0"),
    ("window_stays", "delete from lockstep.window_state"),
    ("shown_when_passed", """update lockstep.window_state set revision = 1 where key = '["later"]'"""),
    ("shown_when_passed", f"{GONE} {SHOWN}"),
    ("shown_when_passed", f"{OF_ANOTHER} {SHOWN}"),
    ("windows_of_one", f"{UNOWNED}; {OWNED}"),
    ("windows_of_one", f"{UNOWNED}; {GONE} {OWNED}"),
    ("late_once", LATE.format(offset=3, ends="07:00", watermark="08:00")),
    ("late_by_judgement", LATE.format(offset=4, ends="08:01", watermark="08:00")),
    ("late_by_judgement", LATE.format(offset=4, ends="07:00", watermark="07:30")),
    ("late_by_judgement", LATE.format(offset=24, ends="07:00", watermark="08:00")),
    ("late_by_judgement", f"{ADMITTED.format('%(d)s')}; {LATE.format(offset=4, ends='07:00', watermark='08:00')}"),
    ("late_stays", "delete from lockstep.late"),
    ("late_is_not_changed", "update lockstep.late set batch_id = %(f)s"),
]  # fmt: skip
CASES = [
    pytest.param(name, statement, id=f"{name}-{sum(n == name for n, _ in REFUSED[:place])}")
    for place, (name, statement) in enumerate(REFUSED)
]


@pytest.fixture
def timed_rows(ledger):
    """Writes a pipeline at eight o'clock, one open and one due window, and a late row. Everything passes all constraints."""
    known = {"s": ledger.stream(0)}
    with transaction(ledger.conn, OWNER) as cur:

        def got(statement: str) -> int:
            cur.execute(statement, known)
            return cur.fetchone()[0]

        cur.execute("insert into lockstep.pipeline (name) values ('other')")
        cur.execute(f"insert into lockstep.target_owner (store, target, pipeline) values ('', '{T}', 'orders')")
        cur.execute("insert into lockstep.event_time (pipeline) values ('orders')")
        cur.execute(f"insert into lockstep.stream_time (stream_id, seen) values (%(s)s, {EIGHT})", known)
        cur.execute(f"update lockstep.event_time set watermark = {EIGHT}")
        known["b"] = got(BATCH.format(lane="live", request="null", watermark=EIGHT))
        cur.execute(CLAIM.format(batch="%(b)s", low=0, high=10), known)
        cur.execute(JUDGED.format(low=0, high=10, at=EIGHT, **NOTHING), known)
        cur.execute(LATE.format(offset=3, ends="07:00", watermark="08:00"), known)
        cur.execute(CLAIM.format(batch="%(b)s", low=20, high=30).partition(";")[2], known)
        known["r"] = got(REQUEST)
        known["f"] = got(BATCH.format(lane="fill", request="%(r)s", watermark="null"))
        cur.execute(CLAIM.format(batch="%(f)s", low=40, high=50), known)
        cur.execute(WINDOW.format(key='["a"]', ends=EIGHT, revision=0))
        cur.execute(WINDOW.format(key='["later"]', ends=NINE, revision=0))
        for key in ('["a"]', '["later"]'):
            cur.execute(COUNTS.format(key=key, stream="%(s)s"), known)
        known["d"] = got(DECISION.format(pipeline="orders", kind="admit-late"))
        known["d_other"] = got(DECISION.format(pipeline="orders", kind="pause"))
    return known


@pytest.mark.parametrize(("name", "statement"), CASES)
def test_a_constraint_refuses_by_itself(ledger, timed_rows, name, statement):
    with pytest.raises(psycopg2.Error) as refused, transaction(ledger.conn, OWNER) as cur:
        cur.execute(statement, timed_rows)
    assert (refused.value.diag.constraint_name, name in str(refused.value)) == (name, True)


SHARED = f"""alter table lockstep.target_owner disable trigger windows_of_one; {UNOWNED};
    insert into lockstep.target_owner (store, target, pipeline, shared_with)
    values ('', '{T}', 'orders', '{{other}}'), ('', '{T}', 'other', '{{orders}}')"""


@pytest.mark.usefixtures("timed_rows")
@pytest.mark.parametrize("owners", [UNOWNED, SHARED], ids=["unowned", "shared"])
def test_nobody_else_commits_into_a_table_with_windows(ledger, owners):
    other = LedgerRows(ledger.conn, "other")
    document = json.dumps({"target": [{"table": T, "kind": "Append"}]})
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute("insert into lockstep.definition values ('d1', 'other', %s, 'v1')", (document,))
        cur.execute(owners)
    ranges = {other.stream(0): (0, 10)}

    with pytest.raises(psycopg2.Error) as refused:
        other.done(ranges)

    assert refused.value.diag.constraint_name == "windows_of_one"
    assert f"windows_of_one: {T} has windows of orders, and other would write it" in str(refused.value)


@pytest.mark.parametrize(
    "statement",
    [
        f"{UNOWNED}; insert into lockstep.target_owner (store, target, pipeline) values ('', '{T}', 'orders')",
        OWNED.replace(f"'', '{T}'", f"'WAREHOUSE', '{T}'"),
        "update lockstep.stream_time set seen = '2026-05-01T09:00Z', idle_at = now()",
        f"update lockstep.stream_time set seen = {NINE}; update lockstep.event_time set watermark = {NINE}",
        JUDGED.format(low=20, high=30, at=EIGHT, **NOTHING),
        JUDGED.format(low=40, high=50, at="'-infinity'", **NOTHING),
        ADMITTED.format("%(d)s"),
        """update lockstep.window_state set revision = 1 where key = '["a"]';
           update lockstep.window_state set revision = 2 where key = '["a"]'""",
        f"delete from lockstep.target_owner; {SHOWN}",
        LATE.format(offset=4, ends="08:00", watermark="08:00"),
        BATCH.format(lane="live", request="null", watermark="'2026-05-01T07:00Z'").replace("'orders'", "'orders'"),
    ],
)
def test_what_event_time_does_by_itself_is_allowed(ledger, timed_rows, statement):
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute("delete from lockstep.claim where batch_id = %(b)s and lower(offsets) = 0", timed_rows)
        if "lockstep.batch" in statement:  # one live batch is under way at a time
            cur.execute("delete from lockstep.claim where batch_id = %(b)s", timed_rows)
            cur.execute(
                "update lockstep.batch set state = 'abandoned', closed_at = now() where batch_id = %(b)s", timed_rows
            )
        cur.execute(statement, timed_rows)


@pytest.mark.parametrize(
    ("statement", "may"),
    [
        ("update lockstep.event_time set watermark = watermark", {COMMITTER}),
        ("update lockstep.stream_time set seen = seen", {COMMITTER}),
        ("update lockstep.stream_time set opened_with = opened_with", set()),
        ("update lockstep.judged set watermark = watermark", set()),
        ("update lockstep.judged set admitted_by = %(d)s", {PLANNER}),
        ("delete from lockstep.judged", set()),
        ("update lockstep.window_state set revision = revision", {COMMITTER}),
        ("update lockstep.window_state set ends = ends", set()),
        ("delete from lockstep.window_state where false", {COMMITTER}),
        ("update lockstep.late set row = row", set()),
        ("delete from lockstep.late where false", {COMMITTER}),
    ],
)
def test_a_role_of_a_run_writes_no_more_of_event_time_than_its_step_needs(ledger, timed_rows, statement, may):
    assert roles_that_may(ledger.conn, statement, timed_rows) == may
