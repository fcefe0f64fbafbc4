"""Tests the chain's database side: every commit and decision leaves a record that waits for its link."""

from __future__ import annotations

import json

import pytest

from lockstep.adapters.postgres import OWNER, transaction
from lockstep.core.health.findings import Severity
from lockstep.core.health.ledger_findings import chain_findings
from lockstep.core.proof.certificate import digest_of
from lockstep.ledger.proof.chain import chain_check
from lockstep.steps.batch.seal import seal_all
from support.fakes.ledger_rows import read

DECIDE = (
    "insert into lockstep.decision (pipeline, kind, who, why) select pipeline, 'pause', 'me', 'x' from lockstep.stream"
)
ASK = (
    "insert into lockstep.request (pipeline, lane, token, who, why) "
    "select pipeline, 'replay', 9, 'me', 'x' from lockstep.stream"
)
RECORDS = """select l.number, l.digest, coalesce(c.record, d.record, q.record, g.record) as record from lockstep.link l
    left join lockstep.committed_record c using (batch_id, stream_id)
    left join lockstep.decided_record d using (decision_id) left join lockstep.requested_record q using (request_id)
    left join lockstep.ledger_record g using (ledger_id) order by 1"""


@pytest.mark.parametrize("table", ["commit", "decision", "request"])
def test_what_is_committed_or_decided_waits_for_its_link(ledger, conn, table):
    stream = ledger.stream(0)
    if table == "commit":
        batch, _ = ledger.done({stream: (0, 10)})
        waiting = ledger.ask("select batch_id, stream_id, decision_id from lockstep.unsealed where ledger_id is null")
        assert waiting == [(batch, stream, None)]
    else:
        with transaction(conn, OWNER) as cur:
            cur.execute(DECIDE if table == "decision" else ASK)
        rows = ledger.ask(f"select {table}_id from lockstep.{table}")
        assert ledger.ask(f"select {table}_id from lockstep.unsealed where ledger_id is null") == rows


def test_a_link_is_the_digest_of_its_record_and_of_the_link_before(ledger, conn):
    stream = ledger.stream(0)
    ledger.done({stream: (0, 10)})
    ledger.done({stream: (10, 30)})
    with transaction(conn, OWNER) as cur:
        cur.execute(DECIDE)
        cur.execute(ASK)
        cur.execute("set local timezone = 'Asia/Kathmandu'")
        cur.execute("select lockstep.seal(pipeline, 2) from lockstep.stream")
        cur.execute("select lockstep.seal(pipeline, 9) from lockstep.stream")
    found = ledger.ask(RECORDS)
    previous = ""
    for _, digest, record in found:
        assert digest == digest_of(previous, record)
        previous = digest
    kinds = [json.loads(record)["record"] for _, _, record in found]
    assert [number for number, _, _ in found] == [1, 2, 3, 4, 5]
    assert kinds == ["ledger", "commit", "commit", "decision", "request"]
    assert ledger.ask("select count(*) from lockstep.unsealed") == [(0,)]


def test_a_request_bears_the_name_that_its_pipeline_has_and_no_other(ledger, conn):
    ledger.stream(0)
    with transaction(conn, OWNER) as cur:
        cur.execute(ASK.replace("why)", "why, opened_as)").replace("'x' from", "'x', 'another' from"))
        cur.execute("select record::jsonb ->> 'pipeline' from lockstep.requested_record")
        assert cur.fetchone() == ("orders",)


def seal_ledger(conn) -> None:
    """Links the ledger's own record, which stands before all others."""
    with transaction(conn, OWNER) as cur:
        cur.execute("select lockstep.seal(pipeline, 1) from lockstep.stream")


def test_a_range_waits_until_its_batch_is_closed(ledger, conn):
    stream = ledger.stream(0)
    ledger.done({stream: (0, 10)})
    seal_ledger(conn)
    with transaction(conn, OWNER) as cur:
        cur.execute("alter table lockstep.batch disable trigger user")
        cur.execute("update lockstep.batch set state = 'planned', closed_at = null")
        cur.execute("select lockstep.seal(pipeline, 9) from lockstep.stream")
        assert cur.fetchone() == (0,)
        cur.execute("update lockstep.batch set state = 'committed', closed_at = now()")
        cur.execute("select lockstep.seal(pipeline, 9) from lockstep.stream")
        assert cur.fetchone() == (1,)


FORGED = {
    "a decision that is not there": (
        "decision_id) values ('orders', 999999999)",
        "decision 999999999 waits for its link, and is not",
    ),
    "a batch that is not there": (
        "batch_id, stream_id) values ('orders', 99, 1)",
        "batch 99 waits for its link, and is not",
    ),
    "a request that is not there": (
        "request_id) values ('orders', 99)",
        "request 99 waits for its link, and is not",
    ),
    "a ledger that is another one": (
        "ledger_id) values ('orders', gen_random_uuid())",
        "waits for its link, and is not this ledger",
    ),
    "a decision that has a link": ("decision_id) values ('orders', 1)", "decision 1 waits for its link, and has one"),
}


@pytest.mark.parametrize(("row", "named"), FORGED.values(), ids=FORGED)
def test_what_no_seal_can_link_is_wrong_and_named(ledger, conn, row, named):
    ledger.covered(ledger.stream(0), 0, 1, "loss")
    seal_all(conn, "orders")
    assert read(conn, chain_check, "orders").ok
    ledger.ask(f"insert into lockstep.unsealed (pipeline, {row} returning 1")
    check = read(conn, chain_check, "orders")
    assert not check.ok
    assert named in check.detail
    (finding,) = chain_findings("orders", check.detail)
    assert finding.severity is Severity.PROBLEM


def test_records_that_wait_while_batches_commit_are_wrong(ledger, conn):
    s = ledger.stream(0)
    ledger.covered(s, 0, 1, "loss")
    seal_all(conn, "orders")
    ledger.ask("update lockstep.link set at = '2026-01-01' returning 1")
    for n in range(1, 10):
        ledger.done({s: (n, n + 1)})
    assert read(conn, chain_check, "orders").ok
    ledger.done({s: (10, 11)})
    check = read(conn, chain_check, "orders")
    assert (check.ok, check.detail) == (
        False,
        "10 records wait for their link, and 10 batches were committed since the last one",
    )
    seal_all(conn, "orders")
    assert read(conn, chain_check, "orders").ok
