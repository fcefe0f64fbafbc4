"""Reads facts from the ledger for tests of decisions, and defines the person who decides in them."""

from __future__ import annotations

from lockstep.core.changes.person import Person
from lockstep.core.pipeline.definition import Append, Json, Pipeline

ORDERS = Pipeline("orders", "orders.v1", Json("id string"), Append("public.orders"))
ME = Person("me@here", "because")


def decided(ledger):
    return ledger.ask("select kind, who, why from lockstep.decision order by decision_id")


def position(ledger, stream):
    return ledger.ask("select position from lockstep.stream where stream_id = %(s)s", s=stream)[0][0]


def batch_state(ledger, batch):
    return ledger.ask("select state from lockstep.batch where batch_id = %(b)s", b=batch)[0][0]


def claims(ledger):
    return ledger.ask("select batch_id from lockstep.claim")
