"""Tests that the database counts no wrong file: raw SQL as the owner, without the code's own checks."""

from __future__ import annotations

import os
from contextlib import closing

import psycopg2
import pytest
from psycopg2 import errors

from lockstep.adapters.postgres import OWNER, connect
from lockstep.core.pipeline.definition import Append, Archive, Json, Pipeline
from lockstep.ledger.batch import archived
from support.fakes.ledger_rows import TOPIC, LedgerRows, commit_in, view
from support.scenes.undone import roles_that_may, undone

HEX = "0" * 64
PUT = """insert into lockstep.archived (stream_id, offsets, path, records, bytes, digest_sum, digest_squares, sha256, log_start)
    values (%({stream})s, int8range({low}, {high}, '{bounds}'), '{path}', {records}, {size}, 0, 0, '{sha256}', {start}) """


def put(low: object = 0, high: object = 10, stream: str = "s", **more: object) -> str:
    known = {"path": f"orders/{stream}/{low}", "records": 1, "size": 9, "sha256": HEX, "start": 0, "bounds": "[)"}
    return PUT.format(stream=stream, low=low, high=high, **known | more)


DECIDE = """insert into lockstep.decision (pipeline, kind, who, why, detail)
    values ('{pipeline}', '{kind}', 'me', 'old', '{{}}'); """
DROP = """insert into lockstep.archive_drop (archived_id, decision_id)
    select a.archived_id, d.decision_id from lockstep.archived a, lockstep.decision d; """
DECIDED = DECIDE.format(pipeline="orders", kind="drop-archived")
MERGE = """delete from lockstep.coverage where stream_id = %(s)s;
    insert into lockstep.coverage (stream_id, offsets, kind, batch_id) values (%(s)s, int8range(0, 20), 'batch', %(b)s)"""
ATTEMPT = """insert into lockstep.attempt (batch_id, token, definition_hash, owner, lease_until)
    values (%(c)s, 77, 'd1', 'host/1/1', now() + interval '20 s')"""
# constraint → what must be refused, by its name. %(s)s has [0, 20) committed by two batches, %(b)s the second of them.
# %(n)s is a newer stream of the same log, %(o)s one of a log that was replaced.
REFUSED = [
    ("archived_once", put() + ";" + put(9, 12)),
    ("one_row_a_file", put() + ";" + put(10, 12, path="orders/s/0")),
    ("archived_half_open", put(0, 0)),
    ("archived_half_open", put(3, "null")),
    ("archived_from_the_log", put(5, 10, start=6)),
    ("archived_counts", put(records=11)),
    ("archived_counts", put(records=-1)),
    ("archived_counts", put(size=0)),
    ("archived_sha256_check", put(sha256="0" * 63)),
    ("archived_in_time", "update lockstep.stream set upkept_below = 6 where stream_id = %(n)s;" + put(5, 10)),
    ("archived_of_one_log", put(stream="n")),
    ("archived_of_one_log", put(stream="o")),
    ("dropped_by_decision", put() + ";" + DECIDE.format(pipeline="orders", kind="pause") + DROP),
    ("dropped_by_decision", put() + "; insert into lockstep.pipeline (name) values ('others');"
        + DECIDE.format(pipeline="others", kind="drop-archived") + DROP),
    ("dropped_when_done", put(19, 21) + ";" + DECIDED + DROP),
    ("dropped_when_done", put() + """; insert into lockstep.claim (stream_id, offsets, batch_id, expects, expects_batch)
        select %(s)s, int8range(5, 6), %(b)s, 'batch', %(b)s;""" + DECIDED + DROP),
    ("archived_stays_apart", put(19, 20) + ";" + MERGE),
]  # fmt: skip
CASES = [
    pytest.param(name, statement, id=f"{name}-{sum(n == name for n, _ in REFUSED[:place])}")
    for place, (name, statement) in enumerate(REFUSED)
]


@pytest.fixture(scope="module")
def logs(servers):
    """Returns the ledger and the streams of a log that grew behind offset 20, and of one that was replaced.

    Every test takes back what it does.
    """
    with servers.database(f"archived_{os.getpid()}") as dsn, closing(connect(dsn)) as conn:
        ledger = LedgerRows(conn)
        yield ledger, grown(ledger)


def grown(ledger):
    s = ledger.stream(0)
    ledger.done({s: (0, 10)})
    b, _ = ledger.done({s: (10, 20)})
    ledger.retired(s)
    n = ledger.stream(0, start=20, epoch=1)
    c = ledger.planned({n: (20, 30)})
    o = ledger.stream(1)
    ledger.retired(o)
    ledger.stream(1, incarnation=1, epoch=1)
    return {"s": s, "b": b, "n": n, "o": o, "c": c}


@pytest.mark.parametrize(("name", "statement"), CASES)
def test_a_constraint_of_the_archive_refuses_by_itself(logs, name, statement):
    ledger, known = logs
    with pytest.raises(psycopg2.Error) as refused, undone(ledger.conn, OWNER) as cur:
        cur.execute(statement, known)
    assert (refused.value.diag.constraint_name, name in str(refused.value)) == (name, True)


def test_what_is_archived_and_dropped_is_never_changed_by_a_role_of_a_run(logs):
    ledger, known = logs
    for statement in (
        "update lockstep.archived set sha256 = path",
        "delete from lockstep.archived",
        "update lockstep.archive_drop set at = now()",
        "delete from lockstep.archive_drop",
    ):
        assert roles_that_may(ledger.conn, statement, known) == set(), statement


def test_a_merge_is_allowed_where_the_archive_was_dropped(logs):
    ledger, known = logs
    with undone(ledger.conn, OWNER) as cur:
        cur.execute(put() + ";" + DECIDED + DROP + MERGE, known)
        cur.execute("select count(*) from lockstep.coverage where kind = 'batch'")
        assert cur.fetchone()[0] == 1


def test_a_log_that_grew_has_one_archive_and_a_replaced_one_gives_none(logs):
    ledger, known = logs
    with undone(ledger.conn, OWNER) as cur:
        cur.execute(put(0, 12) + ";" + put(12, 30), known)
        pipeline = Pipeline("orders", TOPIC, Json("id string"), Append("public.o"), archive=Archive("file:///a"))
        seen = archived.with_archive(cur, pipeline, view((40, 50), (3, 50)))
        assert seen.bounds[0].archived == ((0, 30),)
        assert seen.bounds[1].archived == ()
        (log, _) = archived.logs_to_archive(cur, "orders", view((40, 50), (3, 50)))
        assert (log.stream_id, log.froms, log.untils) == (known["s"], [0, 12], [12, 30])


@pytest.mark.parametrize(
    ("before", "held", "is_whole"),
    [
        (0, (20, 25), False),  # it began in the log, and lost its beginning while it was read
        (21, (20, 25), True),
        (23, (20, 24), False),  # the archive lacks an offset
        (23, (21, 29), False),
        (23, (0, 50), True),
    ],
)
def test_read_whole_is_by_log_and_archive_together(logs, before, held, is_whole):
    ledger, known = logs
    trim = f"""create function pg_temp.trim() returns trigger language plpgsql as $$ begin
        new.log_start_before := {before}; new.log_start_after := 25; return new; end $$;
        create trigger trim before insert on lockstep.result for each row execute function pg_temp.trim()"""
    refused = None if is_whole else "read_whole"
    try:
        with undone(ledger.conn, OWNER) as cur:
            cur.execute(put(*held) + ";" + trim, known)
            cur.execute("update lockstep.batch set token = 77 where batch_id = %(c)s", known)
            cur.execute(ATTEMPT, known)
            commit_in(cur, known["c"], 77)
    except errors.CheckViolation as violation:
        assert violation.diag.constraint_name == refused  # noqa: PT017 - both outcomes are cases
    else:
        assert refused is None
