"""Tests that rejects keep their bytes as long as the pipeline says.

Then offset, reason and digest stay, and verify holds.
"""

from __future__ import annotations

import pytest

from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline.definition import Append, Json, Pipeline
from lockstep.faults import InjectedFault
from lockstep.steps.upkeep.coverage import upkeep
from lockstep.steps.upkeep.empty_rejects import empty_rejects
from support.scenes.erasing import KEY, erase_key, feed, holding, wrong

KEPT = "select count(*) from lockstep.reject where value is not null"
AGE = "update lockstep.commit set at = at - interval '{} days'"
BYTES = ["lockstep.reject.key", "lockstep.reject.value"]


@pytest.fixture
def rejecting(contents, produce):
    """Returns the drill, which keeps rejects for 30 days, after it has committed three that hold a key."""
    here = contents(more=", reject_retention=30")
    feed(produce, here.drill.topic)
    here.drain()
    assert here.sql(KEPT) == [(3,)]
    return here


def aged(here, days: int) -> None:
    """Ages the batches' commits by so much. Makes their chain anew."""
    here.sql(f"""{AGE.format(days)}; delete from lockstep.link;
        insert into lockstep.unsealed (pipeline, batch_id, stream_id) select 'drill', batch_id, stream_id from lockstep.commit
        where (batch_id, stream_id) not in (select batch_id, stream_id from lockstep.unsealed where batch_id is not null);
        insert into lockstep.unsealed (pipeline, ledger_id) select 'drill', ledger_id from lockstep.ledger;
        insert into lockstep.unsealed (pipeline, request_id) select 'drill', request_id from lockstep.request
        where request_id not in (select request_id from lockstep.unsealed where request_id is not null);
        select lockstep.seal('drill', 1000)""")


def test_upkeep_empties_what_is_older_and_verify_still_holds(rejecting):
    aged(rejecting, 31)
    before = rejecting.sql('select stream_id, "offset", reason, timestamp from lockstep.reject order by 1, 2')
    held = holding(rejecting.drill.dsn)
    assert set(BYTES) <= set(held)
    assert upkeep(rejecting.at.conn, rejecting.at.broker.view).emptied == 3
    assert rejecting.sql('select stream_id, "offset", reason, timestamp from lockstep.reject order by 1, 2') == before
    assert rejecting.sql(KEPT) == [(0,)]
    assert not set(BYTES) & set(holding(rejecting.drill.dsn))
    assert wrong(rejecting) == []
    assert upkeep(rejecting.at.conn, rejecting.at.broker.view).emptied == 0


def test_younger_rejects_keep_their_bytes(rejecting):
    aged(rejecting, 29)
    assert upkeep(rejecting.at.conn, rejecting.at.broker.view).emptied == 0
    assert rejecting.sql(KEPT) == [(3,)]


def test_a_pipeline_that_says_nothing_keeps_them_for_good(contents, produce):
    here = contents()
    feed(produce, here.drill.topic)
    here.drain()
    aged(here, 10_000)
    assert empty_rejects(here.at.conn) == (0, [])
    assert here.sql(KEPT) == [(3,)]


def test_the_newest_committed_definition_counts(rejecting, produce):
    rejecting.rewrite("reject_retention=30", "reject_retention=90")
    feed(produce, rejecting.drill.topic)
    rejecting.drain()
    aged(rejecting, 60)
    assert empty_rejects(rejecting.at.conn) == (0, [])
    aged(rejecting, 60)
    assert empty_rejects(rejecting.at.conn) == (6, [])


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_portions_come_to_the_same(rejecting, most):
    aged(rejecting, 31)
    assert empty_rejects(rejecting.at.conn, most=most) == (3, [])
    assert wrong(rejecting, deep=False) == []


def test_what_dies_on_the_way_is_done_by_the_next(rejecting, monkeypatch, tmp_path):
    aged(rejecting, 31)
    (armed := tmp_path / "armed").touch()
    monkeypatch.setenv("LOCKSTEP_FAULT", f"upkeep.rejects_emptied=raise@{armed}")
    with pytest.raises(InjectedFault):
        empty_rejects(rejecting.at.conn)
    assert rejecting.sql(KEPT) == [(3,)]
    assert empty_rejects(rejecting.at.conn) == (3, [])


def test_a_reject_that_was_changed_behind_its_emptying_is_found(rejecting):
    aged(rejecting, 31)
    empty_rejects(rejecting.at.conn)
    rejecting.sql("update lockstep.reject set reason = 'another' where stream_id = 2")
    assert any("rejects in the ledger are not those" in detail for _, detail in wrong(rejecting, deep=False))


def test_an_emptied_reject_whose_reason_quotes_the_key_is_erased_too(rejecting):
    rejecting.sql("alter table lockstep.reject disable trigger user")
    aged(rejecting, 31)
    empty_rejects(rejecting.at.conn)
    rejecting.sql(
        f"with r as (select stream_id, \"offset\" from lockstep.reject limit 1) update lockstep.reject j set reason = '{KEY}',"
        " removed_digest = removed_digest"
        ' + lockstep.reject_digest(j.stream_id, j."offset", j.timestamp, null, null, null, j.reason)'
        f" - lockstep.reject_digest(j.stream_id, j.\"offset\", j.timestamp, null, null, null, '{KEY}')"
        ' from r where (j.stream_id, j."offset") = (r.stream_id, r."offset")'
    )
    rejecting.sql("alter table lockstep.reject enable trigger user")
    assert wrong(rejecting, deep=False) == []
    assert erase_key(rejecting).rows["lockstep.reject"] == 1
    assert holding(rejecting.drill.dsn) == []
    assert wrong(rejecting, deep=False) == []


@pytest.mark.parametrize("days", [0, -1, 1.5, True, "30", 36_501])
def test_a_retention_that_is_no_number_of_days_is_refused(days):
    with pytest.raises(BadDefinition, match="reject_retention"):
        Pipeline("p", "t", Json("id string"), Append("public.t"), reject_retention=days)


def test_a_definition_without_one_keeps_its_document():
    plain = Pipeline("p", "t", Json("id string"), Append("public.t"))
    assert "reject_retention" not in plain.document()
    assert (
        Pipeline("p", "t", Json("id string"), Append("public.t"), reject_retention=7).document()["reject_retention"]
        == 7
    )
