"""Tests the chain's database side: every commit and decision leaves a record that waits for its link."""

from __future__ import annotations

import pytest

from lockstep.adapters.postgres import OWNER, transaction
from lockstep.core.proof.certificate import digest_of

DECIDE = (
    "insert into lockstep.decision (pipeline, kind, who, why) select pipeline, 'pause', 'me', 'x' from lockstep.stream"
)
RECORDS = """select l.number, l.digest, coalesce(c.record, d.record) from lockstep.link l
    left join lockstep.committed_record c using (batch_id, stream_id)
    left join lockstep.decided_record d using (decision_id) order by 1"""


@pytest.mark.parametrize("table", ["commit", "decision"])
def test_what_is_committed_or_decided_waits_for_its_link(ledger, conn, table):
    stream = ledger.stream(0)
    if table == "commit":
        batch, _ = ledger.done({stream: (0, 10)})
        assert ledger.ask("select batch_id, stream_id, decision_id from lockstep.unsealed") == [(batch, stream, None)]
    else:
        with transaction(conn, OWNER) as cur:
            cur.execute(DECIDE)
        decisions = ledger.ask("select decision_id from lockstep.decision")
        assert ledger.ask("select decision_id from lockstep.unsealed") == decisions


def test_a_link_is_the_digest_of_its_record_and_of_the_link_before(ledger, conn):
    stream = ledger.stream(0)
    ledger.done({stream: (0, 10)})
    ledger.done({stream: (10, 30)})
    with transaction(conn, OWNER) as cur:
        cur.execute(DECIDE)
        cur.execute("set local timezone = 'Asia/Kathmandu'")
        cur.execute("select lockstep.seal(pipeline, 2) from lockstep.stream")
        cur.execute("select lockstep.seal(pipeline, 2) from lockstep.stream")
    found = ledger.ask(RECORDS)
    previous = ""
    for _, digest, record in found:
        assert digest == digest_of(previous, record)
        previous = digest
    assert [number for number, _, _ in found] == [1, 2, 3]
    assert ledger.ask("select count(*) from lockstep.unsealed") == [(0,)]


def test_a_range_waits_until_its_batch_is_closed(ledger, conn):
    stream = ledger.stream(0)
    ledger.done({stream: (0, 10)})
    with transaction(conn, OWNER) as cur:
        cur.execute("alter table lockstep.batch disable trigger user")
        cur.execute("update lockstep.batch set state = 'planned', closed_at = null")
        cur.execute("select lockstep.seal(pipeline, 9) from lockstep.stream")
        assert cur.fetchone() == (0,)
        cur.execute("update lockstep.batch set state = 'committed', closed_at = now()")
        cur.execute("select lockstep.seal(pipeline, 9) from lockstep.stream")
        assert cur.fetchone() == (1,)
