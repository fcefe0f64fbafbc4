"""Tests that a replay of code that mixes partitions takes each owner's segments together, however many there are."""

from __future__ import annotations

import pytest

from lockstep.ledger.changes import requests
from support.fakes.ledger_rows import read


@pytest.fixture
def window(ledger):
    """Returns `window(streams)`, which opens a replay of everything that these streams have covered."""

    def opened(*streams: int) -> int:
        written = ledger.ask(
            """with r as (insert into lockstep.request (pipeline, lane, token, who, why)
                   values ('orders', 'replay', nextval('lockstep.token_seq'), 'me', 'because') returning request_id)
               insert into lockstep.request_window (request_id, stream_id, offsets)
               select request_id, s, int8range(0, 1000) from r cross join unnest(%(s)s) s returning request_id""",
            s=list(streams),
        )
        return written[0][0]

    return opened


def owners(pieces) -> dict[int, int]:
    """Returns how many pieces each owner has."""
    found: dict[int, int] = {}
    for piece in pieces:
        found[piece.owner] = found.get(piece.owner, 0) + 1
    return found


def test_an_owner_whose_other_segment_lies_behind_the_cut_waits_for_the_next_plan(ledger, conn, window, monkeypatch):
    monkeypatch.setattr(requests, "SEGMENTS_AT_ONCE", 3)
    one, two = ledger.stream(0), ledger.stream(1)
    small = [ledger.done({one: (10 * n, 10 * n + 10)})[0] for n in range(5)]
    last, _ = ledger.done({one: (50, 60), two: (0, 10)})
    request = window(one, two)

    assert owners(read(conn, requests.due, request)) == dict.fromkeys([*small[:3], last], 1)  # the last one in part
    assert owners(read(conn, requests.due_whole, request)) == dict.fromkeys(small[:3], 1)


def test_owners_that_all_reach_behind_the_cut_are_looked_for_further_on(ledger, conn, window, monkeypatch):
    monkeypatch.setattr(requests, "SEGMENTS_AT_ONCE", 1)
    one, two = ledger.stream(0), ledger.stream(1)
    a, b = (ledger.done({one: (low, low + 10), two: (low, low + 10)})[0] for low in (0, 10))
    ledger.ask(  # as replays may leave them: each is first in one stream and behind the cut in the other
        "update lockstep.coverage set batch_id = %(a)s + %(b)s - batch_id where stream_id = %(s)s returning 1",
        a=a,
        b=b,
        s=two,
    )
    request = window(one, two)

    assert owners(read(conn, requests.due, request)) == {a: 1, b: 1}  # both in part
    assert owners(read(conn, requests.due_whole, request)) == {a: 2, b: 2}
